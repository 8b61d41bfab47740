! What mpi_over_rcce.c has of MPI.
      integer MPI_COMM_WORLD, MPI_STATUS_SIZE, MPI_SUCCESS
      parameter (MPI_COMM_WORLD=1, MPI_STATUS_SIZE=4, MPI_SUCCESS=0)
      integer MPI_ERR_OTHER
      parameter (MPI_ERR_OTHER=15)
      integer MPI_DOUBLE_PRECISION, MPI_INTEGER, MPI_REAL, MPI_LOGICAL
      parameter (MPI_DOUBLE_PRECISION=11, MPI_INTEGER=12, MPI_REAL=13)
      parameter (MPI_LOGICAL=14)
      integer MPI_SUM, MPI_MIN, MPI_MAX
      parameter (MPI_SUM=21, MPI_MIN=22, MPI_MAX=23)
      double precision MPI_WTIME
      external MPI_WTIME
