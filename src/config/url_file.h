/* SPDX-License-Identifier: MIT */
/* url_file.h - the text of a file of URLs; see url_file.c. */
#ifndef SPN__URL_FILE_H
#define SPN__URL_FILE_H

#include <spindle/url.h>

/* As spn_url_file_read, for `length` bytes of text that are the file `path`.  The text is cut
 * in place and needs room for one more byte. */
int spn__url_file_parse(const char *path, char *text, size_t length, spn_url_file_fn fn,
                        void *ctx, spn_problem *problem);

#endif /* SPN__URL_FILE_H */
