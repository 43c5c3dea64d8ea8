/* SPDX-License-Identifier: MIT */
/* Options of an older and of a newer caller, and of one that forgot the size. */
#include "test.h"

#include <string.h>

#include "base/options.h"

struct options {
    size_t size;
    uint32_t first, second;
    uint64_t third;
};

/* What a program of a later release passes. */
struct newer {
    struct options known;
    uint64_t fourth;
    uint32_t fifth, sixth;
};

static const struct options untouched = { 1, 2, 3, 4 };

/* A caller of the same age: an exact copy. */
TEST(options__same_size__copied)
{
    const struct options from = { sizeof from, 10, 20, 30 };
    struct options to = untouched;

    CHECK_OK(spn__options_copy(&to, sizeof to, &from));
    CHECK_EQ(memcmp(&to, &from, sizeof to), 0);
}

/* An older caller: for each size its struct may have had, the bytes it has are
 * copied and the others read as 0. */
TEST(options__older_caller__missing_bytes_are_zero)
{
    for (size_t size = sizeof(size_t); size < sizeof(struct options);
         size += sizeof(size_t)) {
        unsigned char from[sizeof(struct options)], to[sizeof(struct options)];

        memset(from, 0xaa, sizeof from);
        memset(to, 0xff, sizeof to);
        memcpy(from, &size, sizeof size);
        CHECK_OK(spn__options_copy(to, sizeof to, from));
        for (size_t i = 0; i < sizeof to; i++)
            CHECK_EQ(to[i], i < size ? from[i] : 0);
    }
}

/* A size that ends inside a field is nobody's: refused, and nothing was written. */
TEST(options__size_inside_a_field__refused, "G-3")
{
    for (size_t size = sizeof(size_t); size < sizeof(struct newer); size++) {
        struct newer from = { .known = { size, 10, 20, 30 } };
        struct options to = untouched;

        if (size % sizeof(size_t) == 0)
            continue;
        CHECK_STATUS(spn__options_copy(&to, sizeof to, &from.known), SPN_EINVAL);
        CHECK_EQ(memcmp(&to, &untouched, sizeof to), 0);
    }
}

/* A newer caller that leaves its new fields 0 is served. */
TEST(options__newer_caller_with_zero_fields__copied)
{
    const struct newer from = { .known = { sizeof from, 10, 20, 30 } };
    struct options to = untouched;

    CHECK_OK(spn__options_copy(&to, sizeof to, &from.known));
    CHECK_EQ(memcmp(&to, &from.known, sizeof to), 0);
}

/* A newer caller that asks for what this build lacks is refused, whichever bit
 * it is, and nothing was written. */
TEST(options__unknown_bit_set__refused, "G-3")
{
    for (size_t i = sizeof(struct options); i < sizeof(struct newer); i++)
        for (int bit = 0; bit < 8; bit++) {
            struct newer from = { .known = { sizeof from, 10, 20, 30 } };
            struct options to = untouched;

            ((unsigned char *)&from)[i] = (unsigned char)(1 << bit);
            CHECK_STATUS(spn__options_copy(&to, sizeof to, &from.known), SPN_EINVAL);
            CHECK_EQ(memcmp(&to, &untouched, sizeof to), 0);
        }
}

/* A size that cannot be one was never set: refused before any byte beyond the
 * size itself is read. */
TEST(options__impossible_size__refused, "G-3")
{
    const size_t sizes[] = { 0,
                             1,
                             sizeof(size_t) - 1,
                             SPN__OPTIONS_MAX + 1,
                             SIZE_MAX / 2,
                             SIZE_MAX - 1,
                             SIZE_MAX };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t alone = sizes[i]; /* nothing behind it: ASan watches */
        /* volatile: gcc warns of the bytes behind it, which are not read. */
        const void *volatile from = &alone;
        struct options to = untouched;

        CHECK_STATUS(spn__options_copy(&to, sizeof to, from), SPN_EINVAL);
        CHECK_EQ(memcmp(&to, &untouched, sizeof to), 0);
    }
}

/* The smallest and the largest size that are allowed are allowed. */
TEST(options__extreme_sizes__accepted)
{
    static union {
        size_t size;
        unsigned char bytes[SPN__OPTIONS_MAX];
    } from;
    struct options to = untouched;

    from.size = sizeof from;
    CHECK_OK(spn__options_copy(&to, sizeof to, &from));
    CHECK_EQ(to.size, SPN__OPTIONS_MAX);
    CHECK_EQ(to.third, 0);
    from.bytes[SPN__OPTIONS_MAX - 1] = 1;
    CHECK_STATUS(spn__options_copy(&to, sizeof to, &from), SPN_EINVAL);

    from.size = sizeof(size_t);
    to = untouched;
    CHECK_OK(spn__options_copy(&to, sizeof to, &from));
    CHECK_EQ(to.first, 0);
    CHECK_EQ(to.second, 0);
    CHECK_EQ(to.third, 0);
}
