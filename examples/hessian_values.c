/* SPDX-License-Identifier: MIT */
/*
 * Hessian values: what calls and replies carry.  An object is made as a caller makes an
 * argument, looked through and printed as a method may, and becomes a C struct.
 */
#include <spindle-rpc.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct user {
    int32_t id;
    const char *name;
    struct user *boss;
};

/* Which field of the object is which of the struct; a method answers with a struct by the
 * same table (spn_request_return_struct). */
extern const spn_hstruct user_struct;
static const spn_hfield user_fields[] = {
    { "id", offsetof(struct user, id), SPN_HFIELD_INT, 0, NULL },
    { "name", offsetof(struct user, name), SPN_HFIELD_TEXT, 0, NULL },
    { "boss", offsetof(struct user, boss), SPN_HFIELD_STRUCT, 0, &user_struct },
};
const spn_hstruct user_struct = { "com.demo.User", user_fields, 3,
                                  sizeof(struct user) };

static spn_hvalue *make_user(spn_harena *arena, int32_t id, const char *name)
{
    spn_hvalue *user = spn_harena_object(arena, "com.demo.User");
    spn_hvalue *grades = spn_harena_map(arena, NULL);

    /* What could not be made is answered for by the call that gets it. */
    if (spn_hvalue_put(grades, spn_harena_int(arena, 2025),
                       spn_harena_double(arena, 1.5)) != SPN_OK ||
        spn_hvalue_set(user, "id", spn_harena_int(arena, id)) != SPN_OK ||
        spn_hvalue_set(user, "name", spn_harena_text(arena, name)) != SPN_OK ||
        spn_hvalue_set(user, "since", spn_harena_date(arena, 1765000000000)) !=
            SPN_OK ||
        spn_hvalue_set(user, "key", spn_harena_binary(arena, "\x00\xff", 2)) !=
            SPN_OK ||
        spn_hvalue_set(user, "grades", grades) != SPN_OK)
        return NULL;
    return user;
}

/* Each field as what it is; what has parts as one line for people. */
static void print_fields(const spn_hvalue *object)
{
    char line[64];
    spn_hspan bytes;
    int32_t number;
    int64_t ms;

    for (size_t i = 0; i < spn_hvalue_count(object); i++) {
        const spn_hvalue *field = spn_hvalue_at(object, i);

        printf("%s, %s: ", spn_hvalue_name_at(object, i),
               spn_hkind_name(spn_hvalue_kind(field)));
        if (spn_hvalue_as_int(field, &number) == SPN_OK)
            printf("%" PRId32 "\n", number);
        else if (spn_hvalue_as_date(field, &ms) == SPN_OK)
            printf("%" PRId64 " ms since 1970\n", ms);
        else if (spn_hvalue_kind(field) == SPN_HBINARY &&
                 spn_hvalue_as_binary(field, &bytes) == SPN_OK)
            printf("%zu bytes\n", bytes.length);
        else
            printf("%" PRId64 " bytes to print: %s\n",
                   spn_hvalue_print(field, line, sizeof line), line);
    }
}

static int run(spn_harena *arena)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    struct user user = { 0, NULL, NULL };
    spn_hvalue *bob = make_user(arena, 2, "Bob"), *ann = make_user(arena, 1, "Ann");

    if (spn_hvalue_set(bob, "boss", ann) != SPN_OK ||
        spn_hvalue_set(ann, "boss", ann) != SPN_OK) /* a circle is fine */
        return 1;
    print_fields(bob);
    (void)spn_hvalue_print_file(ann, stdout);
    printf("\nBob and Ann are %s\n",
           spn_hvalue_equals(bob, ann) == 1 ? "the same" : "different");

    if (spn_hvalue_to_struct(bob, arena, &user_struct, &user, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    printf("%s's boss is %s, whose boss is %s\n", user.name, user.boss->name,
           user.boss->boss->name);

    /* What does not fit is told by its field. */
    if (spn_hvalue_set(bob, "id", spn_harena_text(arena, "two")) == SPN_OK &&
        spn_hvalue_to_struct(bob, arena, &user_struct, &user, &problem) != SPN_OK)
        printf("refused: %s\n", problem.text);
    return 0;
}

int main(void)
{
    spn_harena *arena;
    int failed;

    if (spn_harena_create(&arena, NULL) != SPN_OK)
        return 1;
    failed = run(arena);
    /* All values are gone, and the arena is free for another message. */
    spn_harena_reset(arena);
    failed |= run(arena);
    spn_harena_destroy(arena);
    return failed;
}
