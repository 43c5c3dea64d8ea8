/* SPDX-License-Identifier: MIT */
/*
 * hessian_code.h - the first byte of everything.
 *
 * A byte below 0x40 or above 0x5F is a form and a part of the number or length; the ones
 * between are mostly letters.
 */
#ifndef SPN__HESSIAN_CODE_H
#define SPN__HESSIAN_CODE_H

enum {
    C_STRING_DIRECT = 0x00, /* to 1F: length                  */
    C_BINARY_DIRECT = 0x20, /* to 2F                          */
    C_STRING_SHORT = 0x30,  /* to 33, one more byte           */
    C_BINARY_SHORT = 0x34,  /* to 37                          */
    C_LONG_3 = 0x38,        /* to 3F: 3C is 0, two more bytes */
    C_BINARY_CHUNK = 'A',
    C_BINARY = 'B',
    C_CLASS = 'C',
    C_DOUBLE = 'D',
    C_FALSE = 'F',
    C_MAP = 'H',
    C_INT = 'I',
    C_DATE_MS = 0x4A,
    C_DATE_MINUTES = 0x4B,
    C_LONG = 'L',
    C_MAP_TYPED = 'M',
    C_NULL = 'N',
    C_OBJECT = 'O',
    C_REFERENCE = 'Q',
    C_STRING_CHUNK = 'R',
    C_STRING = 'S',
    C_TRUE = 'T',
    C_LIST_TYPED_OPEN = 'U',
    C_LIST_TYPED = 'V',
    C_LIST_OPEN = 'W',
    C_LIST = 'X',
    C_LONG_INT = 0x59,
    C_END = 'Z',
    C_DOUBLE_0 = 0x5B,
    C_DOUBLE_1 = 0x5C,
    C_DOUBLE_BYTE = 0x5D,
    C_DOUBLE_SHORT = 0x5E,
    C_DOUBLE_MILLS = 0x5F,
    C_OBJECT_DIRECT = 0x60,     /* to 6F: number of the class        */
    C_LIST_TYPED_DIRECT = 0x70, /* to 77: length                     */
    C_LIST_DIRECT = 0x78,       /* to 7F                             */
    C_INT_1 = 0x80,             /* to BF: 90 is 0                    */
    C_INT_2 = 0xC0,             /* to CF: C8 is 0, one more byte     */
    C_INT_3 = 0xD0,             /* to D7: D4 is 0, two more bytes    */
    C_LONG_1 = 0xD8,            /* to EF: E0 is 0                    */
    C_LONG_2 = 0xF0             /* to FF: F8 is 0, one more byte     */
};

/* A chunk of a string ends here at the latest, in units; of a binary, in bytes: what is
 * left of the 4096 bytes that Java's writer has after a chunk's head. */
enum { CHUNK_UNITS = 0x8000, CHUNK_BYTES = 4093 };

#endif /* SPN__HESSIAN_CODE_H */
