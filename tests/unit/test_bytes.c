/* SPDX-License-Identifier: MIT */
/* test_bytes.c - a run of bytes (net/bytes.h): what it holds as it grows and is used up, and
 * what it counts against its budget. */
#include "test.h"

#include <string.h>

#include "net/bytes.h"

enum { KIB = 1024 };

/* Appends `size` bytes that go on counting at *next. */
static bool append(struct spn__bytes *b, size_t size, unsigned *next,
                   enum spn__share share)
{
    static unsigned char bytes[512 * KIB];
    const struct spn__piece piece = { bytes, size };
    const unsigned first = *next;

    REQUIRE(size <= sizeof bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(*next)++;
    if (spn__bytes_append(b, &piece, 1, share))
        return true;
    *next = first;
    return false;
}

/* Uses up the first `size` bytes, which must count on from *next. */
static void use_up(struct spn__bytes *b, size_t size, unsigned *next)
{
    size_t wrong = 0;

    for (size_t i = 0; i < size; i++)
        wrong += spn__bytes_first(b)[i] != (unsigned char)(*next)++;
    CHECK_EQ(wrong, 0);
    spn__bytes_take(b, size);
}

/* Whatever is appended and used up in whatever pieces: the same bytes in the same order, the
 * budget has what the capacity says, and nothing of it when all is used up. */
TEST(bytes__appended_and_used_up_at_random__in_order_and_counted, "EXC-26")
{
    struct spn__budget budget;
    struct spn__bytes b = { .budget = &budget };
    unsigned in = 0, out = 0;
    uint64_t seed = t_seed();

    spn__budget_init(&budget, 0);
    for (int i = 0; i < 4000; i++) {
        const size_t most = t_random(&seed) % 16 == 0 ? 300 * KIB : 3 * KIB;

        REQUIRE(append(&b, t_random(&seed) % most, &in, SPN__SHARE_REPLIES));
        CHECK_EQ(spn__budget_used(&budget), spn__bytes_counted(b.capacity));
        use_up(&b, t_random(&seed) % (b.size + 1), &out);
        CHECK_EQ(spn__budget_used(&budget), spn__bytes_counted(b.capacity));
    }
    use_up(&b, b.size, &out);
    CHECK_EQ(in, out);
    CHECK_EQ(spn__budget_used(&budget), 0);
    spn__bytes_fini(&b);
}

/* A run that grows takes from the budget what it grows by: the old memory and the new one are
 * never counted at once, so a run of more than half the limit can grow. */
TEST(bytes__more_than_half_of_the_budget__grows_by_the_difference, "EXC-26")
{
    struct spn__budget budget;
    struct spn__bytes b = { .budget = &budget };
    unsigned in = 0, out = 0;

    spn__budget_init(&budget, 1024 * KIB);
    REQUIRE(append(&b, 500 * KIB, &in, SPN__SHARE_REQUESTS));
    CHECK_EQ(spn__budget_used(&budget), 500 * KIB);
    REQUIRE(append(&b, 300 * KIB, &in, SPN__SHARE_REQUESTS));
    CHECK_EQ(spn__budget_used(&budget), 800 * KIB);
    CHECK(!append(&b, 500 * KIB, &in, SPN__SHARE_REQUESTS));
    CHECK_EQ(spn__budget_used(&budget), 800 * KIB);
    use_up(&b, 800 * KIB, &out);
    CHECK_EQ(spn__budget_used(&budget), 0);
}

/* What was used up in front is room again before anything more is taken. */
TEST(bytes__room_in_front__used_before_it_grows, "EXC-26")
{
    struct spn__budget budget;
    struct spn__bytes b = { .budget = &budget };
    unsigned in = 0, out = 0;

    spn__budget_init(&budget, 0);
    REQUIRE(append(&b, 200 * KIB, &in, SPN__SHARE_REPLIES));
    for (int i = 0; i < 100; i++) {
        use_up(&b, 90 * KIB, &out);
        REQUIRE(append(&b, 90 * KIB, &in, SPN__SHARE_REPLIES));
        CHECK(b.capacity <= 220 * KIB);
    }
    use_up(&b, b.size, &out);
    CHECK_EQ(spn__budget_used(&budget), 0);
}
