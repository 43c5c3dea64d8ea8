/* SPDX-License-Identifier: MIT */
/* Saturating time arithmetic, against 128-bit arithmetic that cannot overflow. */
#include "test.h"

#include "base/time.h"

static const int64_t edges[] = {
    INT64_MIN,
    INT64_MIN + 1,
    INT64_MIN + 2,
    INT64_MIN / 2 - 1,
    INT64_MIN / 2,
    INT64_MIN / 2 + 1,
    -SPN_SEC(1),
    (int64_t)INT32_MIN - 1,
    INT32_MIN,
    -2,
    -1,
    0,
    1,
    2,
    999999,
    INT32_MAX,
    (int64_t)INT32_MAX + 1,
    UINT32_MAX,
    SPN_SEC(1),
    (int64_t)1 << 53,
    INT64_MAX / 2 - 1,
    INT64_MAX / 2,
    INT64_MAX / 2 + 1,
    INT64_MAX - 2,
    INT64_MAX - 1,
    INT64_MAX,
};
enum { EDGES = sizeof edges / sizeof edges[0] };

static int64_t clamp(__int128 value)
{
    return value < INT64_MIN   ? INT64_MIN
           : value > INT64_MAX ? INT64_MAX
                               : (int64_t)value;
}

static void check_pair(int64_t a, int64_t b)
{
    const int64_t deadline = b <= 0 ? a : clamp((__int128)a + b);

    CHECK_EQ(spn__time_add(a, b), clamp((__int128)a + b));
    CHECK_EQ(spn__time_sub(a, b), clamp((__int128)a - b));
    CHECK_EQ(spn__deadline(a, b), deadline);
    CHECK_EQ(spn__deadline_passed(a, b), a != INT64_MAX && (__int128)b - a >= 0);
}

/* Sums, differences and deadlines are the true value or the nearest end, for
 * every pair of edge values. */
TEST(time__every_pair_of_edges__as_in_128_bits, "G-8", "P20")
{
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            check_pair(edges[i], edges[j]);
}

/* The same around every edge and for random numbers of every magnitude. */
TEST(time__random_pairs__as_in_128_bits, "G-8")
{
    uint64_t state = t_seed();

    for (int i = 0; i < t_rounds(100000); i++) {
        const int64_t a = (int64_t)(t_random(&state) >> (t_random(&state) % 64));
        const int64_t b = (int64_t)(t_random(&state) >> (t_random(&state) % 64));
        const bool negative = t_random(&state) % 2;

        check_pair(a, negative && b > 0 ? -b : b);
        check_pair(edges[t_random(&state) % EDGES], b);
    }
}

/* A timeout of 0, -1 or INT64_MIN has a deadline that has passed already, now and
 * at every other time of the clock. */
TEST(time__timeout_not_positive__deadline_has_passed, "G-6")
{
    const int64_t timeouts[] = { SPN_NOWAIT, -1, INT64_MIN };

    for (int t = 0; t < 3; t++)
        for (int i = 0; i < EDGES - 1; i++) /* no clock shows SPN_FOREVER */
            CHECK(spn__deadline_passed(spn__deadline(edges[i], timeouts[t]), edges[i]));
}

/* SPN_FOREVER from now has a deadline that never passes, unless the clock is
 * before 0, where the sum is merely 292 years away. */
TEST(time__forever__never_passes, "G-8")
{
    for (int i = 0; i < EDGES; i++) {
        CHECK(!spn__deadline_passed(SPN_FOREVER, edges[i]));
        if (edges[i] >= 0) {
            CHECK_EQ(spn__deadline(edges[i], SPN_FOREVER), SPN_FOREVER);
            CHECK(
                !spn__deadline_passed(spn__deadline(edges[i], SPN_FOREVER), INT64_MAX));
        }
    }
}

/* A positive timeout never gives a deadline that has passed: nothing wraps. */
TEST(time__positive_timeout__deadline_in_the_future, "G-8")
{
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            if (edges[j] > 0)
                CHECK(
                    !spn__deadline_passed(spn__deadline(edges[i], edges[j]), edges[i]));
}

/* The units are what they say, as signed 64-bit nanoseconds, and do not
 * overflow in int. */
TEST(time__units__64_bit_nanoseconds, "G-5")
{
    _Static_assert(sizeof(SPN_SEC(1)) == 8, "64 bits");
    CHECK_EQ(SPN_NS(7), 7);
    CHECK_EQ(SPN_US(7), 7000);
    CHECK_EQ(SPN_MS(7), 7000000);
    CHECK_EQ(SPN_SEC(7), 7000000000);
    CHECK_EQ(SPN_SEC(-7), -7000000000);
    CHECK_EQ(SPN_SEC(86400 * 365), 31536000000000000);
    CHECK_EQ(SPN_FOREVER, INT64_MAX);
    CHECK_EQ(SPN_NOWAIT, 0);
}
