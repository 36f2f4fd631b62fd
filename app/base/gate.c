#include "app/base/gate.h"

void tc_gate_init(tc_gate *gate, bool up)
{
    *gate = (tc_gate){ .lifts = up };
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
}

void tc_gate_destroy(tc_gate *gate)
{
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
}

static bool is_up(const tc_gate *gate)
{
    return gate->lifts > 0 && gate->holds == 0;
}

static void change(tc_gate *gate, int lifts, int holds)
{
    if (gate == NULL)
        return;
    pthread_mutex_lock(&gate->lock);
    gate->lifts += (unsigned)lifts;
    gate->holds += (unsigned)holds;
    if (is_up(gate))
        pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void tc_gate_lift(tc_gate *gate)
{
    change(gate, 1, 0);
}

void tc_gate_drop(tc_gate *gate)
{
    change(gate, -1, 0);
}

void tc_gate_hold(tc_gate *gate)
{
    change(gate, 0, 1);
}

void tc_gate_release(tc_gate *gate)
{
    change(gate, 0, -1);
}

void tc_gate_end(tc_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_over = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

tc_status tc_gate_ask(void *user, tc_err *err)
{
    tc_gate *const gate = user;
    bool is_over;

    (void)err;
    pthread_mutex_lock(&gate->lock);
    while (!is_up(gate) && !gate->is_over)
        pthread_cond_wait(&gate->changed, &gate->lock);
    is_over = gate->is_over;
    pthread_mutex_unlock(&gate->lock);
    return is_over ? TC_TRY_LATER : TC_OK;
}
