// SPDX-License-Identifier: MIT
//
// calls.js ADDRESS [DISPATCHER]: calls every method of the demo service with dubbo2.js, a client that
// knows nothing of spindle, and compares what comes back with what was promised.
// Prints a line for each failure and `N passed, N failed` last.
'use strict';
const net = require('net');
const { DirectlyDubbo, java } = require('dubbo2.js');

const address = process.argv[2];
const dispatcher = process.argv[3] || 'all';
let passed = 0;
let failed = 0;

function check(what, ok, got) {
  if (ok) {
    passed++;
  } else {
    failed++;
    console.log(`FAIL: ${what}: got ${JSON.stringify(got)}`);
  }
}

// The promise of a method is { res, err }; a client of another version of the protocol
// asks for replies with attachments.
function service(dubboVersion) {
  const dubbo = DirectlyDubbo.from({
    dubboAddress: address,
    dubboVersion,
    dubboInvokeTimeout: 5,
  });
  return dubbo.proxyService({
    dubboInterface: 'org.apache.dubbo.demo.DemoService',
    version: '1.0.0',
    group: 'g1',
    timeout: 5000,
    methods: {
      sayHello: name => [java.String(name)],
      echo() {},
      add: (a, b) => [java.int(a), java.int(b)],
      nothing() {},
      getUser: request => [java.combine('com.demo.UserRequest', request)],
      fail() {},
      busy() {},
      missing() {},
      never() {},
      split() {},
      sleep: ms => [java.int(ms)],
      unknownMethod() {},
      $echo: value => [{ $class: 'java.lang.Object', $: value }],
    },
  });
}

// An error of the client may hold its text in several places.
function textOf(err) {
  if (!err) return '';
  return [err.message, err.stack, String(err), JSON.stringify(err)].join(' ');
}

async function callAll(dubboVersion) {
  const demo = service(dubboVersion);
  const on = name => `dubbo ${dubboVersion}: ${name}`;
  let r;

  r = await demo.sayHello('bob');
  check(on('sayHello'), r.res === 'hello bob' && !r.err, r);
  const wide = 'h\u00e4 \u4f60\u597d \ud83d\ude00';
  r = await demo.sayHello(wide);
  check(on('sayHello beyond ASCII'), r.res === 'hello ' + wide, r);
  const long = 'x'.repeat(70000);
  r = await demo.sayHello(long);
  check(on('sayHello, 70,000 letters'), r.res === 'hello ' + long, r && r.err);
  r = await demo.sayHello('');
  check(on('sayHello, nothing'), r.res === 'hello ', r);
  r = await demo.echo();
  check(on('echo'), r.res === 'pang', r);
  r = await demo.add(2, 40);
  check(on('add'), r.res === 42, r);
  r = await demo.add(-2147483648, 1);
  check(on('add, negative'), r.res === -2147483647, r);
  r = await demo.nothing();
  check(on('nothing'), r.res === null && !r.err, r);
  r = await demo.getUser({ id: java.int(1), name: java.String('nodejs'), email: java.String('n@example.org') });
  check(on('getUser'), !!r.res && r.res.id === 7 && r.res.name === 'nodejs' &&
        JSON.stringify(r.res.tags) === '["a","b"]', r);
  r = await demo.fail();
  check(on('fail'), !!r.err && textOf(r.err).includes('boom'), textOf(r.err));
  r = await demo.busy();
  check(on('busy'), textOf(r.err).includes('exhausted'), textOf(r.err));
  r = await demo.missing();
  check(on('missing'), textOf(r.err).includes('no such method'), textOf(r.err));
  r = await demo.unknownMethod();
  check(on('a method that is not there'), !!r.err, r);
  r = await demo.split();
  check(on('split'), r.res === 'split-ok', r);
  r = await demo.sleep(30);
  check(on('sleep'), !r.err, r);

  // Replies come in any order: the slow one last, though it was asked first.  Only with
  // `direct`, where methods run on the I/O thread, it holds the connection up.  A machine that
  // stands still for as long as the slow one takes has both ready at once: then it takes longer.
  const wanted = dispatcher === 'direct' ? 'slow,fast' : 'fast,slow';
  let order;
  for (const ms of [300, 1000, 3000]) {
    order = [];
    await Promise.all([
      demo.sleep(ms).then(() => order.push('slow')),
      demo.echo().then(() => order.push('fast')),
    ]);
    if (order.join() === wanted) break;
  }
  check(on('a slow call holds nobody up'), order.join() === wanted, order);

  const many = await Promise.all([...Array(500).keys()].map(i => demo.add(i, i)));
  check(on('500 calls at once'), many.every((x, i) => x.res === 2 * i),
        many.findIndex((x, i) => x.res !== 2 * i));

  // never() has no reply; the client gives up, and the connection goes on.
  let answered = false;
  demo.never().then(x => { answered = !!x.res; });
  r = await demo.echo();
  check(on('after never'), r.res === 'pang' && !answered, r);
}

// A heartbeat as the client sends it, and what must come back, byte for byte.
function heartbeat() {
  return new Promise(resolve => {
    const [host, port] = address.split(':');
    const socket = net.connect(Number(port), host, () => {
      socket.write(Buffer.from('dabbe200' + '00000000000000ff' + '00000001' + '4e', 'hex'));
    });
    socket.once('data', data => {
      check('heartbeat', data.toString('hex') === 'dabb2214' + '00000000000000ff' + '00000001' + '4e',
            data.toString('hex'));
      socket.destroy();
      resolve();
    });
    socket.once('error', error => {
      check('heartbeat', false, error.message);
      resolve();
    });
  });
}

(async () => {
  await callAll('2.0.2');
  await callAll('2.6.2');
  await heartbeat();
})().catch(error => {
  check('the calls', false, textOf(error));
}).then(() => {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
});
