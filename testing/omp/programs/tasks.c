/* Tasks: all of them once, who waits for which, groups, priorities, loops of tasks, reductions over them, events. */
#include <omp.h>
#include <pthread.h>
#include <string.h>
#include "check.h"

static long fib(int n) {
    long one, two;
    if (n < 2) return n;
#pragma omp task shared(one) if (n > 8)
    one = fib(n - 1);
#pragma omp task shared(two) final(n < 10) mergeable
    two = fib(n - 2);
#pragma omp taskwait
    return one + two;
}

static void many(void) {
    long sum = 0;
    struct { long head; char rest[300]; } large;
#pragma omp parallel
    {
#pragma omp single nowait
        for (int at = 0; at < 3000; at++) {
            memset(&large, at % 100, sizeof large);
            large.head = at;
#pragma omp task firstprivate(large)
            {
                CHECK(large.rest[0] == large.head % 100 && large.rest[299] == large.head % 100);
#pragma omp atomic
                sum += large.head;
            }
        }
#pragma omp barrier
        EQUAL(sum, 3000L * 2999 / 2);
    }
    sum = 0;
#pragma omp parallel master
    for (int at = 0; at < 1000; at++)
#pragma omp task untied
    {
#pragma omp task
        {
#pragma omp atomic
            sum++;
        }
    }
    EQUAL(sum, 1000);
#pragma omp parallel
    for (int at = 0; at < 100; at++)
#pragma omp task
    {
#pragma omp atomic
        sum++;
#pragma omp taskyield
    }
    EQUAL(sum, 1000 + 100 * omp_get_max_threads());
}

static void waits(void) {
    int done = 0, grandchildren = 0;
#pragma omp parallel
#pragma omp single
    {
        for (int at = 0; at < 50; at++)
#pragma omp task
        {
#pragma omp task
            {
#pragma omp atomic
                grandchildren++;
            }
#pragma omp atomic
            done++;
        }
#pragma omp taskwait
        EQUAL(done, 50);
#pragma omp taskgroup
        {
            for (int at = 0; at < 50; at++)
#pragma omp task
            {
#pragma omp task
                {
#pragma omp atomic
                    grandchildren++;
                }
            }
        }
        CHECK(grandchildren >= 50);
    }
    EQUAL(grandchildren, 100);
}

static void loops(void) {
    int hits[500] = {0}, last = 0;
    long sum = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskloop
        for (int at = 0; at < 500; at++) hits[at]++;
        for (int at = 0; at < 500; at++) EQUAL(hits[at], 1);
#pragma omp taskloop grainsize(7) lastprivate(last)
        for (int at = 499; at >= 0; at--) {
            hits[at]++;
            last = at;
        }
        EQUAL(last, 0);
#pragma omp taskloop num_tasks(13) collapse(2)
        for (int one = 0; one < 50; one++)
            for (unsigned long long two = 0; two < 10; two++) hits[one * 10 + two]++;
#pragma omp taskloop grainsize(strict : 30) nogroup
        for (unsigned long long at = 0; at < 500; at++) {
#pragma omp atomic
            hits[at]++;
        }
#pragma omp taskwait
        for (int at = 0; at < 500; at++) EQUAL(hits[at], 4);
#pragma omp taskloop reduction(+ : sum)
        for (int at = 0; at < 500; at++) sum += at;
        EQUAL(sum, 500 * 499 / 2);
    }
}

static long tree(int depth) {
    long sum = 0;
#pragma omp taskgroup task_reduction(+ : sum)
    {
        for (int at = 0; at < 3; at++)
#pragma omp task in_reduction(+ : sum)
        {
            sum += depth;
            if (depth > 0) sum += tree(depth - 1);
        }
    }
    return sum;
}

static void reductions(void) {
    long sum = 0, product = 1, region = 0, loop = 0;
#pragma omp parallel
#pragma omp single
    {
        EQUAL(tree(3), 3 * (3 + 3 * (2 + 3 * (1 + 0))));
#pragma omp taskgroup task_reduction(+ : sum) task_reduction(* : product)
        {
            for (int at = 1; at <= 10; at++)
#pragma omp task in_reduction(+ : sum) in_reduction(* : product)
            {
                sum += at;
#pragma omp task in_reduction(* : product)
                product *= 1 + at % 3;
            }
        }
    }
    EQUAL(sum, 55);
    EQUAL(product, 2 * 3 * 1 * 2 * 3 * 1 * 2 * 3 * 1 * 2);
#pragma omp parallel reduction(task, + : region)
    {
        region++;
        for (int at = 0; at < 10; at++)
#pragma omp task in_reduction(+ : region)
            region += 2;
    }
    EQUAL(region, 21 * omp_get_max_threads());
#pragma omp parallel
#pragma omp for reduction(task, + : loop) schedule(dynamic)
    for (int at = 0; at < 40; at++) {
#pragma omp task in_reduction(+ : loop)
        loop += at;
    }
    EQUAL(loop, 780);
}

static void *fulfill(void *event) {
    omp_fulfill_event(*(omp_event_handle_t *)event);
    return NULL;
}

static void events(void) {
    int body = 0, after = 0;
#pragma omp parallel
#pragma omp single
    {
        omp_event_handle_t event;
#pragma omp task detach(event) depend(out : body)
        {
#pragma omp atomic
            body += 1;
        }
#pragma omp task depend(in : body) shared(after)
        {
            EQUAL(body, 11);
            after = 1;
        }
#pragma omp atomic
        body += 10;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, fulfill, &event) == 0);
        pthread_join(thread, NULL);
#pragma omp taskwait
        EQUAL(after, 1);
#pragma omp task detach(event)
        omp_fulfill_event(event);
    }
}

/* A thin and deep tree without a cut-off: a thread that waits finds the descendants of what it waits for, on any queue. */
static long thin(int depth, int width) {
    long parts[8] = {0}, sum = 1;
    if (depth == 0) return 1;
    for (int at = 0; at < width; at++) {
#pragma omp task shared(parts) firstprivate(at)
        parts[at] = at == depth % width ? thin(depth - 1, width) : 1;
    }
#pragma omp taskwait
    for (int at = 0; at < width; at++) sum += parts[at];
    return sum;
}

/* Each creates the next and ends: parents go before their children. */
static void chain(int left, long *ended) {
    if (left > 0) {
#pragma omp task firstprivate(left, ended)
        chain(left - 1, ended);
    }
#pragma omp atomic
    ++*ended;
}

static void deep(void) {
    long sums[3] = {0}, ended = 0;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int at = 0; at < 3; at++) sums[at] = thin(300, at + 2);
#pragma omp single
        {
#pragma omp taskgroup
            chain(3000, &ended);
            EQUAL(ended, 3001);
        }
    }
    for (int at = 0; at < 3; at++) EQUAL(sums[at], 300 * (at + 2) + 1);
}

/* More tasks than are kept waiting, all of which wait for what comes after. */
static void many_events(void) {
    static omp_event_handle_t handles[600];
    int after = 0;
#pragma omp parallel
#pragma omp single
    {
        for (int at = 0; at < 600; at++) {
            omp_event_handle_t handle;
#pragma omp task detach(handle) depend(out : handles[at])
            {}
            handles[at] = handle;
        }
        for (int at = 0; at < 600; at++) {
#pragma omp task depend(in : handles[at]) shared(after)
            {
#pragma omp atomic
                after++;
            }
            if (at % 16 == 15)
                for (int back = at - 15; back <= at; back++) omp_fulfill_event(handles[back]);
        }
        for (int at = 592; at < 600; at++) omp_fulfill_event(handles[at]);
#pragma omp taskwait
        EQUAL(after, 600);
    }
}

int main(void) {
    long result = 0;
#pragma omp parallel
#pragma omp single
    result = fib(21);
    EQUAL(result, 10946);
    EQUAL(fib(15), 610);
    many();
    waits();
    loops();
    reductions();
    events();
    many_events();
    deep();
    puts("tasks: right");
    return 0;
}
