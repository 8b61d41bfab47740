/* Five kernels with the ways of access of NAS's EP, CG, MG, FT and IS, written anew and small. Each runs with one thread and then with the
 * team, and the two results must agree; the solvers must solve as well. The time of the team's run is on standard output.
 *
 * usage: kernels [KERNEL [SIZE]]...   KERNEL is ep, cg, mg, ft or is; all with small sizes unless given
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

static uint64_t scramble(uint64_t at) {
    at += 0x9e3779b97f4a7c15u;
    at = (at ^ (at >> 30)) * 0xbf58476d1ce4e5b9u;
    at = (at ^ (at >> 27)) * 0x94d049bb133111ebu;
    return at ^ (at >> 31);
}

/* A number from 0 to 1, the same wherever and in whatever order it is asked for. */
static double uniform(uint64_t at) { return (double)(scramble(at) >> 11) / 9007199254740992.0; }

static void *zeroed(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    CHECK(memory != NULL);
    return memory;
}

/* EP: pairs that the polar method makes normal, counted by their size. Nothing is shared before the sums. */
static double ep(long size) {
    double sum = 0;
    long counts[10] = {0};
#pragma omp parallel for reduction(+ : sum, counts[:10])
    for (long at = 0; at < size; at++) {
        double x = 2 * uniform(2 * at) - 1, y = 2 * uniform(2 * at + 1) - 1, t = x * x + y * y;
        if (t > 1 || t == 0) continue;
        double factor = sqrt(-2 * log(t) / t), larger = fmax(fabs(x * factor), fabs(y * factor));
        counts[(int)larger]++;
        sum += x * factor + y * factor;
    }
    for (int at = 0; at < 10; at++) sum += (double)counts[at] * (at + 1);
    return sum;
}

/* CG: conjugate gradients with a sparse symmetric matrix, whose products read what all threads wrote. */
enum { BANDS = 6, STEPS = 15 };
static double cg(long size) {
    double *x = zeroed(size, sizeof *x), *r = zeroed(size, sizeof *r), *p = zeroed(size, sizeof *p), *q = zeroed(size, sizeof *q);
    long far[BANDS];
    for (int band = 0; band < BANDS; band++) far[band] = 1 + (long)(uniform(band) * (double)(size - 1));
    double rho = 0, pq = 0, next = 0;
#pragma omp parallel
    {
#pragma omp for reduction(+ : rho)
        for (long row = 0; row < size; row++) {
            r[row] = p[row] = uniform(row + 100);
            rho += r[row] * r[row];
        }
        for (int step = 0; step < STEPS; step++) {
#pragma omp single
            pq = next = 0;
#pragma omp for reduction(+ : pq)
            for (long row = 0; row < size; row++) {
                double sum = (2 * BANDS + 1) * p[row];
                for (int band = 0; band < BANDS; band++) {
                    sum -= p[(row + far[band]) % size] + p[(row + size - far[band]) % size];
                }
                q[row] = sum;
                pq += p[row] * sum;
            }
            double alpha = rho / pq;
#pragma omp for reduction(+ : next)
            for (long row = 0; row < size; row++) {
                x[row] += alpha * p[row];
                r[row] -= alpha * q[row];
                next += r[row] * r[row];
            }
            double beta = next / rho;
#pragma omp for
            for (long row = 0; row < size; row++) p[row] = r[row] + beta * p[row];
#pragma omp single
            rho = next;
        }
    }
    CHECK(rho < 0.1 * (double)size);
    double sum = 0;
    for (long row = 0; row < size; row++) sum += x[row];
    free(x), free(r), free(p), free(q);
    return sum;
}

/* MG: V-cycles for Poisson's equation on a periodic cube. */
static long at3(long n, long i, long j, long k) { return ((i & (n - 1)) * n + (j & (n - 1))) * n + (k & (n - 1)); }

static double around(const double *u, long n, long i, long j, long k) {
    return u[at3(n, i - 1, j, k)] + u[at3(n, i + 1, j, k)] + u[at3(n, i, j - 1, k)] + u[at3(n, i, j + 1, k)] + u[at3(n, i, j, k - 1)] +
           u[at3(n, i, j, k + 1)];
}

static void smooth(double *u, const double *f, long n) {
    for (int colour = 0; colour < 2; colour++) {
#pragma omp parallel for
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++)
                for (long k = (i + j + colour) & 1; k < n; k += 2) u[at3(n, i, j, k)] = (around(u, n, i, j, k) + f[at3(n, i, j, k)]) / 6;
    }
}

static double residual(double *r, const double *u, const double *f, long n) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++)
            for (long k = 0; k < n; k++) {
                double left = f[at3(n, i, j, k)] + around(u, n, i, j, k) - 6 * u[at3(n, i, j, k)];
                r[at3(n, i, j, k)] = left;
                sum += left * left;
            }
    return sqrt(sum);
}

static void cycle(double *u, const double *f, long n) {
    smooth(u, f, n);
    if (n > 4) {
        long m = n / 2;
        double *r = zeroed(n * n * n, sizeof *r), *g = zeroed(m * m * m, sizeof *g), *e = zeroed(m * m * m, sizeof *e);
        residual(r, u, f, n);
#pragma omp parallel for
        for (long i = 0; i < m; i++)
            for (long j = 0; j < m; j++)
                for (long k = 0; k < m; k++) {
                    double sum = 0;
                    for (int d = 0; d < 8; d++) sum += r[at3(n, 2 * i + (d & 1), 2 * j + (d >> 1 & 1), 2 * k + (d >> 2))];
                    g[at3(m, i, j, k)] = sum / 2;
                }
        cycle(e, g, m);
#pragma omp parallel for
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++)
                for (long k = 0; k < n; k++) u[at3(n, i, j, k)] += e[at3(m, i / 2, j / 2, k / 2)];
        free(r), free(g), free(e);
    }
    smooth(u, f, n);
}

static double mg(long n) {
    double *u = zeroed(n * n * n, sizeof *u), *f = zeroed(n * n * n, sizeof *f), *r = zeroed(n * n * n, sizeof *r);
    for (int charge = 0; charge < 10; charge++) {
        f[scramble(charge) % (uint64_t)(n * n * n)] += 1;
        f[scramble(charge + 50) % (uint64_t)(n * n * n)] -= 1;
    }
    double before = residual(r, u, f, n), after = before;
    for (int round = 0; round < 4; round++) {
        cycle(u, f, n);
        after = residual(r, u, f, n);
    }
    CHECK(after < before / 10);
    double sum = 0;
    for (long at = 0; at < n * n * n; at++) sum += u[at] * u[at];
    free(u), free(f), free(r);
    return sum;
}

/* FT: a transform of a cube along each axis, there and back. The last axis of the three is that of other threads. */
typedef struct {
    double re, im;
} complex_t;

static void transform(complex_t *row, long n, double sign) {
    for (long i = 1, j = 0; i < n; i++) {
        long bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            complex_t swap = row[i];
            row[i] = row[j], row[j] = swap;
        }
    }
    for (long length = 2; length <= n; length *= 2)
        for (long k = 0; k < length / 2; k++) {
            double angle = sign * 2 * 3.14159265358979323846 * (double)k / (double)length, c = cos(angle), s = sin(angle);
            for (long i = k; i < n; i += length) {
                complex_t a = row[i], b = row[i + length / 2];
                complex_t turned = {b.re * c - b.im * s, b.re * s + b.im * c};
                row[i] = (complex_t){a.re + turned.re, a.im + turned.im};
                row[i + length / 2] = (complex_t){a.re - turned.re, a.im - turned.im};
            }
        }
}

static void axis(complex_t *cube, long n, long stride, long outer, long inner, double sign) {
#pragma omp parallel for
    for (long i = 0; i < n; i++) {
        complex_t row[256];
        for (long j = 0; j < n; j++) {
            complex_t *from = cube + i * outer + j * inner;
            for (long k = 0; k < n; k++) row[k] = from[k * stride];
            transform(row, n, sign);
            for (long k = 0; k < n; k++) from[k * stride] = row[k];
        }
    }
}

static double ft(long n) {
    CHECK(n <= 256);
    complex_t *cube = zeroed(n * n * n, sizeof *cube);
#pragma omp parallel for
    for (long at = 0; at < n * n * n; at++) cube[at] = (complex_t){uniform(2 * at), uniform(2 * at + 1)};
    for (int back = 0; back < 2; back++) {
        axis(cube, n, 1, n * n, n, back ? 1 : -1);
        axis(cube, n, n, n * n, 1, back ? 1 : -1);
        axis(cube, n, n * n, n, 1, back ? 1 : -1);
    }
    double worst = 0, all = (double)(n * n * n);
    for (long at = 0; at < n * n * n; at++) {
        worst = fmax(worst, fabs(cube[at].re / all - uniform(2 * at)) + fabs(cube[at].im / all - uniform(2 * at + 1)));
    }
    CHECK(worst < 1e-12);
    double sum = cube[1].re / all;
    free(cube);
    return sum;
}

/* IS: keys by their rank, from counts that threads add up in turn. */
enum { KEYS = 1024 };
static int counts[KEYS], places[KEYS + 1];
static double is(long size) {
    int *keys = zeroed(size, sizeof *keys), *sorted = zeroed(size, sizeof *sorted);
    memset(counts, 0, sizeof counts);
#pragma omp parallel
    {
        int own[KEYS] = {0}, from[KEYS];
#pragma omp for schedule(static)
        for (long at = 0; at < size; at++) own[keys[at] = (int)(scramble(at) % KEYS)]++;
#pragma omp for ordered schedule(static, 1)
        for (int thread = 0; thread < omp_get_num_threads(); thread++) {
#pragma omp ordered
            for (int key = 0; key < KEYS; key++) from[key] = counts[key], counts[key] += own[key];
        }
#pragma omp single
        for (int key = 0; key < KEYS; key++) places[key + 1] = places[key] + counts[key];
#pragma omp for schedule(static)
        for (long at = 0; at < size; at++) sorted[places[keys[at]] + from[keys[at]]++] = keys[at];
    }
    double sum = 0;
    for (long at = 0; at < size; at++) {
        CHECK(at == 0 || sorted[at - 1] <= sorted[at]);
        sum += (double)sorted[at] * (double)(at % 7);
    }
    free(keys), free(sorted);
    return sum;
}

static const struct {
    const char *name;
    double (*run)(long);
    long size;
} kernels[] = {{"ep", ep, 20000}, {"cg", cg, 4000}, {"mg", mg, 16}, {"ft", ft, 16}, {"is", is, 20000}};

int main(int count, char **words) {
    int threads = omp_get_max_threads();
    for (size_t at = 0; at < sizeof kernels / sizeof *kernels; at++) {
        long size = count > 1 ? 0 : kernels[at].size;
        for (int word = 1; word < count; word++) {
            if (strcmp(words[word], kernels[at].name) == 0) size = word + 1 < count && atol(words[word + 1]) ? atol(words[word + 1]) : kernels[at].size;
        }
        if (size == 0) continue;
        omp_set_num_threads(1);
        double alone = kernels[at].run(size);
        omp_set_num_threads(threads);
        /* Workers are there before the time is taken. */
#pragma omp parallel
        CHECK(omp_get_num_threads() == threads);
        double began = omp_get_wtime(), together = kernels[at].run(size), took = omp_get_wtime() - began;
        CHECK(fabs(alone - together) <= 1e-9 * fabs(alone));
        printf("%s %ld: %.4f s\n", kernels[at].name, size, took);
    }
    printf("kernels: right\n");
    return 0;
}
