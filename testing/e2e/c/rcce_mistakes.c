/* Mistakes of RCCE programs that end the job, by name. A rank that gets further than it should says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iRCCE.h>

int RCCE_APP(int argc, char **argv) {
    RCCE_init(&argc, &argv);
    const char *mistake = argc > 1 ? argv[1] : "none";
    int own = RCCE_ue();
    char bytes[100] = {0};
    iRCCE_RECV_REQUEST request;
    RCCE_barrier(&RCCE_COMM_WORLD);
    if (strcmp(mistake, "leaves") == 0) {
        if (own == 1) _exit(0);
        RCCE_barrier(&RCCE_COMM_WORLD);
    } else if (strcmp(mistake, "aborts") == 0) {
        if (own == RCCE_num_ues() - 1) abort();
        RCCE_bcast(bytes, 100, RCCE_num_ues() - 1, RCCE_COMM_WORLD);
    } else if (strcmp(mistake, "first-leaves") == 0) {
        if (own == 0) _exit(0);
        RCCE_recv(bytes, 100, 0);
    } else if (strcmp(mistake, "unequal") == 0) {
        RCCE_malloc(own == 1 ? 128 : 64);
        RCCE_barrier(&RCCE_COMM_WORLD);
    } else if (strcmp(mistake, "pending") == 0) {
        iRCCE_irecv(bytes, 100, 0, &request);
        RCCE_finalize();
    } else if (strcmp(mistake, "lengths") == 0) {
        RCCE_bcast(bytes, own == 0 ? 100 : 99, 0, RCCE_COMM_WORLD);
        RCCE_barrier(&RCCE_COMM_WORLD);
    } else if (strcmp(mistake, "length") == 0) {
        if (own == 0) RCCE_send(bytes, 100, 1);
        if (own == 1 && RCCE_recv(bytes, 99, 0) == RCCE_ERROR_MESSAGE_LENGTH) printf("told\n");
        return RCCE_finalize();
    }
    printf("rank %d went on\n", own);
    return 0;
}
