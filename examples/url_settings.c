/* SPDX-License-Identifier: MIT */
/*
 * url_settings.c - a service's settings in one line: numbers that must be numbers, a
 * method with a timeout of its own, and an error that says where it is.
 */
#include <spindle.h>

#include <stdio.h>

int main(void)
{
    static const char line[] =
        "dubbo://10.0.0.1:20880/demo.Hello?timeout=1000&slow.timeout=60000&retries=2x";
    spn_problem problem;
    int32_t timeout, retries;
    spn_url *url;

    if (spn_url_parse(&url, line, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n%*s^ %s\n", line, (int)problem.offset, "", problem.text);
        return 1;
    }
    printf("%s on port %d\n", spn_url_path(url), (int)spn_url_port(url));
    if (spn_url_get_int(url, "slow", "timeout", 500, &timeout) != SPN_OK)
        return 1;
    printf("slow calls may take %d ms, %s\n", (int)timeout,
           spn_url_get_own(url, "slow", "timeout") != NULL ? "unlike others"
                                                           : "as all do");
    /* A slip of the finger is told, not taken for the default. */
    if (spn_url_get_int(url, NULL, "retries", 2, &retries) != SPN_EINVAL)
        return 1;
    printf("retries is no number: %s\n", spn_url_get(url, NULL, "retries"));
    spn_url_unref(url);

    if (spn_url_parse(&url, "dubbo://10.0.0.1:2088o", &problem) == SPN_OK)
        return 1;
    printf("at %zu: %s\n", problem.offset, problem.text);
    return problem.offset == 21 ? 0 : 1;
}
