/* Where threads are bound, region after region: `spread` gives the threads of a region parts of the places, and
 * their master has all of them again afterwards. */
#include <omp.h>
#include "check.h"

enum { REGIONS = 3, MOST = 64 };

int main(void) {
    int places[REGIONS][MOST] = {{0}};
    int all = omp_get_partition_num_places(), size = 0;
    CHECK(all == omp_get_num_places());
    for (int region = 0; region < REGIONS; region++) {
#pragma omp parallel
        {
            if (omp_get_thread_num() < MOST) places[region][omp_get_thread_num()] = omp_get_place_num();
            /* A team of an inner region has the places of its master only. */
            int part = omp_get_partition_num_places();
            CHECK(part >= 1 && part <= all);
#pragma omp single
            size = omp_get_num_threads();
        }
        CHECK(omp_get_partition_num_places() == all);
    }
    for (int region = 1; region < REGIONS; region++)
        for (int thread = 0; thread < size && thread < MOST; thread++)
            CHECK(places[region][thread] == places[0][thread]);
    if (size >= all && size <= MOST) {
        /* Every place has a thread. */
        for (int place = 0; place < all; place++) {
            int has = 0;
            for (int thread = 0; thread < size; thread++) has += places[REGIONS - 1][thread] == place;
            CHECK(has);
        }
    }
    puts("places: right");
}
