/* SPDX-License-Identifier: MIT */
/*
 * Any bytes to an endpoint, on a transport that is fed by hand: the fuzz target (fuzz_endpoint.c,
 * which checks each input whole, in two pieces and byte by byte) with every prefix and every
 * changed bit of good frames, and with frames at random.
 */
#include <string.h>

#include "test.h"

#include "../fuzz/fuzz.h"

enum { INPUT_MAX = 600 };

/* A frame with that letter; what the body is does not matter. */
static size_t put_frame(unsigned char *to, char letter, size_t size)
{
    const size_t behind = size + 1;

    to[0] = to[1] = 0;
    to[2] = (unsigned char)(behind >> 8);
    to[3] = (unsigned char)behind;
    to[4] = (unsigned char)letter;
    for (size_t i = 0; i < size; i++)
        to[5 + i] = (unsigned char)(size - i);
    return 5 + size;
}

static size_t put_all(unsigned char *to)
{
    size_t size = put_frame(to, 'Q', 3);

    size += put_frame(to + size, 'h', 0);
    size += put_frame(to + size, 'D', 2);
    size += put_frame(to + size, 'F', 1);
    size += put_frame(to + size, 'O', 0);
    return size + put_frame(to + size, 'Q', 20);
}

/* Wherever the stream ends, and whichever bit of it is wrong. */
TEST(endpoint__cut_and_changed_frames__never_a_crash_or_a_leak, "EP-28")
{
    unsigned char bytes[INPUT_MAX];
    const size_t size = put_all(bytes);

    for (size_t cut = 0; cut <= size; cut++)
        CHECK_EQ(LLVMFuzzerTestOneInput(bytes, cut), 0);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK_EQ(LLVMFuzzerTestOneInput(bytes, size), 0);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

/* Frames of random letters and lengths, with some bytes changed, cut anywhere. */
TEST(endpoint__random_frames__never_a_crash_or_a_leak, "EP-28")
{
    static const char letters[] = "QQQQDhHOFRXKC";
    uint64_t random = t_seed();

    for (int round = 0; round < t_rounds(3000); round++) {
        unsigned char bytes[INPUT_MAX + 64];
        size_t size = 0;

        while (size < INPUT_MAX && t_random(&random) % 8 != 0)
            size += put_frame(bytes + size,
                              letters[t_random(&random) % (sizeof letters - 1)],
                              (size_t)t_random(&random) % 50);
        for (uint64_t n = t_random(&random) % 3; n > 0 && size > 0; n--)
            bytes[t_random(&random) % size] = (unsigned char)t_random(&random);
        if (size > 0 && t_random(&random) % 2 == 0)
            size = (size_t)t_random(&random) % size;
        CHECK_EQ(LLVMFuzzerTestOneInput(bytes, size), 0);
    }
}
