/* SPDX-License-Identifier: MIT */
/*
 * url_registry.c - a consumer finds its providers in a registry.
 *
 * The registry's own URL has a user, a password and the addresses of its other servers.
 * Each consumer tries these in an order of its own, so that a registry that comes back is
 * not asked by all at its first server.  An entry of the registry is the URL of a provider,
 * percent-encoded.  When entries come again, only what has changed is connected anew.
 */
#include <spindle.h>

#include <inttypes.h>
#include <stdio.h>

enum { SERVERS_MAX = 8 };

/* The registry's servers, the first to try first; how many. */
static size_t list_servers(const spn_url *registry, const spn_url *consumer,
                           spn_url *servers[SERVERS_MAX])
{
    spn_url *all[SERVERS_MAX];
    size_t count = 0;

    while (count < SERVERS_MAX &&
           spn_url_backup(registry, count, &all[count]) == SPN_OK)
        count++;
    for (size_t i = 0; i < count; i++)
        servers[i] = all[(spn_url_hash(consumer) + i) % count];
    return count;
}

static int try_servers(const spn_url *registry, const spn_url *consumer)
{
    spn_url *servers[SERVERS_MAX];
    const size_t count = list_servers(registry, consumer, servers);
    const char *user = spn_url_user(registry), *password = spn_url_password(registry);

    printf("as %s, %s a password:", user != NULL ? user : "nobody",
           password != NULL ? "with" : "without");
    for (size_t i = 0; i < count; i++) {
        char address[64];

        spn_url_print(servers[i], SPN_URL_ADDRESS, address, sizeof address);
        printf(" %s", address);
        spn_url_unref(servers[i]);
    }
    printf("\n");
    return count == 3 && user != NULL && password != NULL ? 0 : -1;
}

/* Keeps a provider as it is, or connects it anew; what it did, or a failure. */
enum { KEPT = 1, CONNECTED = 2 };

static int take_entry(const char *entry, spn_url **provider)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    int64_t registered_ms;
    spn_url *url;
    int rc = spn_url_parse_encoded(&url, entry, &problem);

    if (rc == SPN_OK)
        rc = spn_url_get_long(url, NULL, "timestamp", 0, &registered_ms);
    if (rc == SPN_OK && spn_url_equals(url, *provider)) {
        spn_url_unref(url);
        return KEPT;
    }
    if (rc != SPN_OK) {
        printf("an entry is wrong: %s\n", problem.text);
        spn_url_unref(url);
        return rc;
    }
    printf("connect to %s:%d, registered at %" PRId64 " ms%s\n", spn_url_host(url),
           (int)spn_url_port(url), registered_ms,
           spn_url_is_any_host(url) ? ", at all its addresses" : "");
    spn_url_unref(*provider);
    *provider = url;
    return CONNECTED;
}

int main(void)
{
    static const char *const entries[] = {
        "dubbo%3A%2F%2F10.0.0.7%3A20880%2Fshop.Orders%3Fanyhost%3Dtrue"
        "%26timestamp%3D1700000000000",
        /* the same, its parameters in another order */
        "dubbo%3A%2F%2F10.0.0.7%3A20880%2Fshop.Orders%3Ftimestamp%3D1700000000000"
        "%26anyhost%3Dtrue",
        /* it was started again */
        "dubbo%3A%2F%2F10.0.0.7%3A20880%2Fshop.Orders%3Fanyhost%3Dtrue"
        "%26timestamp%3D1700000360000",
    };
    static const int expected[] = { CONNECTED, KEPT, CONNECTED };
    spn_url *registry, *consumer, *provider = NULL;

    if (spn_url_parse(&registry,
                      "zookeeper://shop:secret@10.0.0.1:2181?backup=10.0.0.2,10.0.0.3",
                      NULL) != SPN_OK ||
        spn_url_parse(&consumer, "consumer://10.0.0.9/shop.Orders", NULL) != SPN_OK ||
        try_servers(registry, consumer) != 0)
        return 1;
    for (int i = 0; i < 3; i++)
        if (take_entry(entries[i], &provider) != expected[i])
            return 1;
    spn_url_unref(provider);
    spn_url_unref(consumer);
    spn_url_unref(registry);
    return 0;
}
