/* Heat that spreads over a plate, until nothing changes much: an ordinary OpenMP program, for `tombolo ompcc` or any gcc.
 *
 *     heat [POINTS [STEPS]]      points to a side of the plate, 3 to 20000 [512]; steps at most, from 1 [200]
 *
 * Says how the plate is afterwards, which is the same however many threads on whatever processors computed it, and how many rows
 * were computed on which. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#if defined __aarch64__
enum { HERE = 1 };
#else
enum { HERE = 0 };
#endif
static const char *const processors[] = { "x86-64", "Arm" };

static long number(const char *text, long least, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most) {
        fprintf(stderr, "heat: error: %s is no number from %ld to %ld\nusage: heat [POINTS [STEPS]]\n", text, least, most);
        exit(2);
    }
    return value;
}

int main(int count, char **words)
{
    long points = count > 1 ? number(words[1], 3, 20000) : 512;
    long steps = count > 2 ? number(words[2], 1, 1000000) : 200;
    double *now = calloc(points * points, sizeof *now), *next = calloc(points * points, sizeof *next);
    if (!now || !next) {
        fprintf(stderr, "heat: error: there is no memory for %ld x %ld points twice\n", points, points);
        return 1;
    }
    /* Hot along the upper edge, cold along the others. */
    for (long x = 0; x < points; x++)
        now[x] = next[x] = 100;

    long rows[2] = { 0 }, step = 0;
    double change = 1, begin = omp_get_wtime();
    for (; step < steps && change > 1e-4; step++) {
        change = 0;
#pragma omp parallel for reduction(max : change) reduction(+ : rows)
        for (long y = 1; y < points - 1; y++) {
            for (long x = 1; x < points - 1; x++) {
                const double *at = now + y * points + x;
                double mean = 0.25 * (at[-points] + at[-1] + at[1] + at[points]);
                change = fmax(change, fabs(mean - *at));
                next[y * points + x] = mean;
            }
            rows[HERE]++;
        }
        double *before = now;
        now = next;
        next = before;
    }
    double seconds = omp_get_wtime() - begin, heat = 0;
    for (long at = 0; at < points * points; at++)
        heat += now[at];

    printf("after %ld steps a point changes by %.6f at most, and the mean is %.9f\n", step, change, heat / points / points);
    for (int on = 0; on < 2; on++)
        printf("%6ld rows on %s\n", rows[on], processors[on]);
    fprintf(stderr, "%.3f s with %d threads\n", seconds, omp_get_max_threads());
    return 0;
}
