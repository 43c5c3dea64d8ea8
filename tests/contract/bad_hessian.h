/* SPDX-License-Identifier: MIT */
/* bad_hessian.h - what the bad-input table needs of Hessian: a value of each kind. */
#ifndef BAD_HESSIAN_H
#define BAD_HESSIAN_H

#include <spindle/hessian.h>

struct bad_point {
    int32_t x;
};

struct bad_hessian {
    spn_harena *arena, *other, *made;
    spn_hvalue *list, *map, *object, *text, *number, *flag, *date, *binary;
    spn_hvalue *twin;    /* equal to list */
    spn_hvalue *foreign; /* a list of the other arena */
    spn_hvalue *value;   /* what a call gave */
    char buffer[64];
    int is_true;
    int32_t i;
    int64_t l;
    double d;
    spn_hspan span;
    size_t length;
    struct bad_point point;
    FILE *file;
};

static struct bad_hessian hes;

static const spn_hfield bad_fields[] = { { "x", 0, SPN_HFIELD_INT, 0, NULL } };
static const spn_hstruct bad_struct = { "Point", bad_fields, 1,
                                        sizeof(struct bad_point) };

static inline void hes_again(void)
{
    spn_harena_reset(hes.arena);
    spn_harena_reset(hes.other);
    hes.text = spn_harena_text(hes.arena, "x");
    hes.number = spn_harena_int(hes.arena, 5);
    hes.flag = spn_harena_bool(hes.arena, 1);
    hes.date = spn_harena_date(hes.arena, 0);
    hes.binary = spn_harena_binary(hes.arena, "b", 1);
    hes.list = spn_harena_list(hes.arena, "t");
    hes.twin = spn_harena_list(hes.arena, "t");
    hes.map = spn_harena_map(hes.arena, NULL);
    hes.object = spn_harena_object(hes.arena, "Point");
    hes.foreign = spn_harena_list(hes.other, NULL);
    REQUIRE_OK(spn_hvalue_add(hes.list, hes.number));
    REQUIRE_OK(spn_hvalue_add(hes.twin, hes.number));
    REQUIRE_OK(spn_hvalue_set(hes.map, "x", hes.number));
    REQUIRE_OK(spn_hvalue_set(hes.object, "x", hes.number));
}

static inline void hes_open(void)
{
    REQUIRE_OK(spn_harena_create(&hes.arena, NULL));
    REQUIRE_OK(spn_harena_create(&hes.other, NULL));
    hes_again();
    hes.file = fopen("/dev/null", "w");
    REQUIRE(hes.file != NULL);
}

static inline void hes_close(void)
{
    fclose(hes.file);
    spn_harena_destroy(hes.arena);
    spn_harena_destroy(hes.other);
}

#endif /* BAD_HESSIAN_H */
