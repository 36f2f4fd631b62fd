#include "opencl/guarded.h"

#include "app/base/guard.h"

static ocl_api real;

/* A driver takes signals for itself when it is loaded, or in the first calls that need
 * more of it. seen: how often this call has been made. */
static void leave(unsigned *seen)
{
    enum { FIRST_CALLS = 4 };

    tc_guard_leave();
    if (*seen < FIRST_CALLS) {
        ++*seen;
        tc_guard_again();
    }
}

#define GUARDED_STATUS(name, parameters, arguments)       \
    static cl_int CL_API_CALL guarded_##name parameters   \
    {                                                     \
        static unsigned seen;                             \
        tc_guard_enter(#name);                            \
        const cl_int code = real.name arguments;          \
        leave(&seen);                                     \
        return code;                                      \
    }
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot have any */
#define GUARDED_OBJECT(type, name, parameters, arguments) \
    static type CL_API_CALL guarded_##name parameters     \
    {                                                     \
        static unsigned seen;                             \
        tc_guard_enter(#name);                            \
        const type object = real.name arguments;          \
        leave(&seen);                                     \
        return object;                                    \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
OCL_CALLS(GUARDED_STATUS, GUARDED_STATUS, GUARDED_OBJECT, GUARDED_STATUS)

void ocl_guarded(ocl_api *api)
{
    real = *api;
#define PUT_STATUS(name, parameters, arguments) api->name = guarded_##name;
#define PUT_OBJECT(type, name, parameters, arguments) api->name = guarded_##name;
    OCL_CALLS(PUT_STATUS, PUT_STATUS, PUT_OBJECT, PUT_STATUS)
}
