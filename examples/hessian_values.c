/* SPDX-License-Identifier: MIT */
/*
 * Hessian 2: a C struct becomes a Java object and comes back; a message from outside is read
 * without trust, and printed.
 */
#include <spindle-rpc.h>

#include <stddef.h>
#include <stdio.h>

struct user {
    int32_t id;
    const char *name;
    struct user *boss;
};

extern const spn_hstruct user_struct;
static const spn_hfield user_fields[] = {
    { "id", offsetof(struct user, id), SPN_HFIELD_INT, 0, NULL },
    { "name", offsetof(struct user, name), SPN_HFIELD_TEXT, 0, NULL },
    { "boss", offsetof(struct user, boss), SPN_HFIELD_STRUCT, 0, &user_struct },
};
const spn_hstruct user_struct = { "com.demo.User", user_fields, 3,
                                  sizeof(struct user) };

int main(void)
{
    struct user ann = { 1, "Ann", NULL }, bob = { 2, "Bob", &ann },
                copy = { 0, NULL, NULL };
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_harena *arena;
    spn_hwriter writer;
    spn_hreader reader;
    spn_hvalue *value;
    const void *bytes;
    size_t length;

    if (spn_harena_create(&arena, NULL) != SPN_OK ||
        spn_hwriter_init(&writer, NULL, 0, NULL) != SPN_OK)
        return 1;

    /* Write: one look at the end tells of any failure on the way. */
    ann.boss = &ann; /* a circle is fine */
    (void)spn_hwriter_struct(&writer, &user_struct, &bob);
    if (spn_hwriter_status(&writer) != SPN_OK)
        return 1;
    bytes = spn_hwriter_bytes(&writer, &length);

    /* Read: any bytes at all give a value, or a problem with its place. */
    if (spn_hreader_init(&reader, arena, bytes, length, NULL, &problem) != SPN_OK ||
        spn_hreader_any(&reader, &value) != SPN_OK ||
        spn_hvalue_to_struct(value, arena, &user_struct, &copy, &problem) != SPN_OK) {
        fprintf(stderr, "byte %zu: %s\n", problem.offset, problem.text);
        return 1;
    }
    printf("%zu bytes: ", length);
    (void)spn_hvalue_print_file(value, stdout);
    printf("\n%s's boss is %s, whose boss is %s\n", copy.name, copy.boss->name,
           copy.boss->boss->name);

    if (spn_hreader_init(&reader, arena, "X\x49\x7f\xff\xff\xff", 6, NULL, &problem) ==
            SPN_OK &&
        spn_hreader_any(&reader, &value) != SPN_OK)
        printf("a list too long to be true: byte %zu: %s\n", problem.offset,
               problem.text);

    spn_hwriter_fini(&writer);
    spn_harena_destroy(arena);
    return 0;
}
