/* SPDX-License-Identifier: MIT */
/*
 * stacks.c - what seam_stacks.h names, in a world without signals and files: no
 * question is ever answered, every file is refused.
 */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sync/seam_stacks.h"

void spn__os_code_look(struct spn__os_code *code)
{
    code->count = 0;
}

bool spn__os_follows_call(uintptr_t pc)
{
    (void)pc;
    return true;
}

void spn__os_capture_init(struct spn__os_capture *c, const struct spn__os_code *code,
                          struct spn__os_frame *frames, uint32_t capacity)
{
    memset(c, 0, sizeof *c);
    c->code = code;
    c->frames = frames;
    c->capacity = capacity;
}

int spn__os_capture_open(uint32_t signal, uint32_t *opened)
{
    (void)signal;
    *opened = 0;
    return SPN_ENOTSUP;
}

void spn__os_capture_close(uint32_t signal)
{
    (void)signal;
}

int spn__os_capture_ask(struct spn__os_capture *c, uint32_t signal)
{
    (void)c;
    (void)signal;
    return SPN_EAGAIN;
}

bool spn__os_capture_await(struct spn__os_capture *c, int64_t deadline_ns)
{
    (void)c;
    (void)deadline_ns;
    return false;
}

bool spn__os_capture_idle(struct spn__os_capture *c)
{
    (void)c;
    return true;
}

bool spn__os_capture_peek(struct spn__os_capture *c, const struct spn__os_stack *stack)
{
    (void)c;
    (void)stack;
    return false;
}

void spn__os_thread_coming(struct spn__os_note *note, const void *arg)
{
    (void)note;
    (void)arg;
}

void spn__os_thread_here(struct spn__os_note *note, uint32_t signal)
{
    (void)note;
    (void)signal;
}

void spn__os_thread_gone(struct spn__os_note *note)
{
    (void)note;
}

size_t spn__os_thread_list(struct spn__os_noted *out, size_t capacity, uint32_t signal,
                           int64_t deadline_ns)
{
    (void)out;
    (void)capacity;
    (void)signal;
    (void)deadline_ns;
    return 0;
}

bool spn__os_threads_watch_fork(void)
{
    return true;
}

/* Not where, but who: all frames of a trace must be of one thread. */
uint32_t spn__os_callers(const void *frame, uintptr_t *pcs, uint32_t capacity)
{
    const uint32_t count = capacity - (uint32_t)engine.current->id % capacity;

    (void)frame;
    for (uint32_t i = 0; i < count; i++)
        pcs[i] = (uintptr_t)engine.current->id + 1;
    return count;
}

bool spn__os_is_realtime_signal(uint32_t signal)
{
    return signal >= (uint32_t)SIGRTMIN && signal <= (uint32_t)SIGRTMAX;
}

int32_t spn__os_tid(void)
{
    return engine.current->id + 1;
}

void spn__os_symbol(uintptr_t pc, char *text, size_t capacity)
{
    (void)pc;
    (void)snprintf(text, capacity, "?");
}

bool spn__os_task_look(int32_t tid, struct spn__os_task *task)
{
    (void)tid;
    (void)task;
    return false;
}

size_t spn__os_task_list(int32_t *tids, size_t capacity)
{
    (void)tids;
    (void)capacity;
    return 0;
}

int spn__os_file_create(int *fd, const char *path)
{
    (void)path;
    *fd = -1;
    return EROFS;
}

int spn__os_file_write(int fd, const char *bytes, size_t count)
{
    (void)fd;
    (void)bytes;
    (void)count;
    return EROFS;
}

int spn__os_file_close(int fd)
{
    (void)fd;
    return 0;
}

void spn__os_file_remove(const char *path)
{
    (void)path;
}

int spn__os_folder_create(const char *path)
{
    (void)path;
    return EROFS;
}

const char *spn__os_home(void)
{
    return "/";
}

void spn__os_error_text(int error, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "error %d", error);
}

void spn__os_date(char text[20])
{
    memcpy(text, "0000-00-00_00:00:00", 20);
}
