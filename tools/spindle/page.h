/* SPDX-License-Identifier: MIT */
/*
 * page.h - the file page/status.html, as the build wrote it into the program.
 */
#ifndef PAGE_H
#define PAGE_H

#include <stddef.h>

extern const unsigned char page_status[];
extern const size_t page_status_size;

#endif /* PAGE_H */
