/* SPDX-License-Identifier: MIT */
/*
 * plugin_service.c - a shared object with a service in it, for `spindle serve`:
 *
 *     spindle serve --plugin=./spindle_service_clock.so
 *     spindle call --version= --group= 127.0.0.1:20880 demo.Clock.now
 */
#include <spindle-rpc.h>

#include <time.h>

static int now(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_return_long(request, (int64_t)time(NULL));
}

static const spn_method methods[] = { { "now", "", now, NULL } };
static const spn_service service = {
    .size = sizeof service,
    .interface = "demo.Clock",
    .methods = methods,
    .method_count = 1,
};

static const spn_extension extension = {
    .size = sizeof extension,
    .kind = "service",
    .name = "clock",
    .instance = &service,
};
static const spn_extension *const extensions[] = { &extension };

static const spn_plugin plugin = {
    .size = sizeof plugin,
    .abi = SPN_PLUGIN_ABI,
    .version = SPN_VERSION,
    .extensions = extensions,
    .extension_count = 1,
};

SPN_PLUGIN_EXPORT
{
    return &plugin;
}
