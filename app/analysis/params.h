/*
 * Reading parameters from JSON: typed getters that check ranges and name the
 * key. `where` begins every message ("FILE: job.json: parameters").
 */
#ifndef AN_PARAMS_H
#define AN_PARAMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

/* Every key of the object must be among `known` (ended by NULL). */
tc_status an_check_keys(const json_t *object, const char *const *known, const char *where, tc_err *err);

/* An integer in [lo, hi]; absent: *value stays. Not for null. */
tc_status an_get_int(const json_t *object, const char *key, int64_t lo, int64_t hi,
                     int64_t *value, const char *where, tc_err *err);
/* A least and a largest count, in [1, WU_MAX_VOXELS]: from 1 (or absent) on, up to
 * INT64_MAX where it is absent or null. */
tc_status an_get_sizes(const json_t *object, const char *least_key, const char *most_key,
                       int64_t *least, int64_t *most, const char *where, tc_err *err);
tc_status an_get_bool(const json_t *object, const char *key, bool *value, const char *where, tc_err *err);
/* A number in [lo, hi]. */
tc_status an_get_number(const json_t *object, const char *key, double lo, double hi,
                        double *value, const char *where, tc_err *err);
/* One of `choices` (ended by NULL); *index is its place. */
tc_status an_get_choice(const json_t *object, const char *key, const char *const *choices,
                        int *index, const char *where, tc_err *err);

#endif
