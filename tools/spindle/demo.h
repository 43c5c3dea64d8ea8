/* SPDX-License-Identifier: MIT */
/*
 * demo.h - the demo service that `spindle serve` exports when nothing else is asked for.
 */
#ifndef DEMO_H
#define DEMO_H

#include <spindle/service.h>

extern const spn_service demo_service;

#endif /* DEMO_H */
