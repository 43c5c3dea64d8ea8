/* SPDX-License-Identifier: MIT */
/* lanes.c - not yet. */
#include "exec/pool.h"

int spn__lanes_create(struct spn__lanes **out)
{
    *out = NULL;
    return SPN_ENOTSUP;
}
void spn__lanes_destroy(struct spn__lanes *l)
{
    (void)l;
}
int spn__lanes_push(struct spn__lanes *l, struct spn__entry e)
{
    (void)l;
    (void)e;
    return SPN_ENOTSUP;
}
bool spn__lanes_take(struct spn__lanes *l, struct spn__worker *w, struct spn__entry *e)
{
    (void)l;
    (void)w;
    (void)e;
    return false;
}
bool spn__lanes_any(struct spn__lanes *l)
{
    (void)l;
    return false;
}
void spn__lanes_close(struct spn__lanes *l)
{
    (void)l;
}
int64_t spn__lanes_size(struct spn__lanes *l)
{
    (void)l;
    return 0;
}
int64_t spn__lanes_pushed(struct spn__lanes *l)
{
    (void)l;
    return 0;
}
bool spn__lanes_remove(struct spn__lanes *l, spn_task *t)
{
    (void)l;
    (void)t;
    return false;
}
int64_t spn__lanes_collect(struct spn__lanes *l, bool (*w)(spn_task *, const void *),
                           const void *c, struct spn__list *o)
{
    (void)l;
    (void)w;
    (void)c;
    (void)o;
    return 0;
}
int64_t spn__lanes_snapshot(struct spn__lanes *l, spn_task **t, size_t c)
{
    (void)l;
    (void)t;
    (void)c;
    return 0;
}
int spn__lanes_worker_init(struct spn__lanes *l, struct spn__worker *w)
{
    (void)l;
    (void)w;
    return SPN_OK;
}
void spn__lanes_worker_fini(struct spn__lanes *l, struct spn__worker *w)
{
    (void)l;
    (void)w;
}
