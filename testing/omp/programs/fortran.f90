! Fortran: its own names of what programs ask, and the constructs.
program fortran
  use omp_lib
  implicit none
  integer :: i, j, total, seen, chunk, kind, last
  integer(8) :: long
  real(8) :: sums(10)
  logical :: flag
  integer(omp_lock_kind) :: lock
  integer(omp_nest_lock_kind) :: nest
  character(len=40) :: text
  integer(omp_event_handle_kind) :: event
  total = 0
  !$omp parallel reduction(+:total)
  total = total + omp_get_thread_num() + 1
  !$omp end parallel
  i = omp_get_max_threads()
  if (total /= i * (i + 1) / 2) stop 1
  sums = 0
  !$omp parallel do schedule(dynamic, 3) reduction(+:sums) lastprivate(last)
  do i = 1, 1000
    sums(mod(i, 10) + 1) = sums(mod(i, 10) + 1) + i
    last = i
  end do
  if (sum(sums) /= 500500d0 .or. last /= 1000) stop 2
  call omp_init_lock(lock)
  call omp_init_nest_lock(nest)
  total = 0
  !$omp parallel do schedule(guided) private(j)
  do i = 1, 200
    call omp_set_lock(lock)
    total = total + 1
    call omp_unset_lock(lock)
    call omp_set_nest_lock(nest)
    j = omp_test_nest_lock(nest)
    if (j /= 2) stop 3
    total = total + 1 - 1
    call omp_unset_nest_lock(nest)
    call omp_unset_nest_lock(nest)
  end do
  if (total /= 200) stop 4
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nest)
  call omp_set_schedule(omp_sched_guided, 5)
  call omp_get_schedule(kind, chunk)
  if (iand(kind, 255) /= omp_sched_guided .or. chunk /= 5) stop 5
  total = 0
  !$omp parallel
  !$omp single
  do i = 1, 50
    !$omp task firstprivate(i)
    !$omp atomic
    total = total + i
    !$omp end task
  end do
  !$omp taskwait
  !$omp end single
  !$omp workshare
  sums = sums * 2
  !$omp end workshare
  !$omp end parallel
  if (total /= 1275 .or. sum(sums) /= 1001000d0) stop 6
  seen = 0
  !$omp parallel do ordered schedule(dynamic)
  do i = 1, 100
    !$omp ordered
    if (seen /= i - 1) stop 7
    seen = i
    !$omp end ordered
  end do
  long = 0
  !$omp parallel sections reduction(+:long)
  !$omp section
  long = long + 1
  !$omp section
  long = long + 2
  !$omp end parallel sections
  if (long /= 3) stop 8
  flag = omp_in_parallel()
  if (flag .or. omp_get_ancestor_thread_num(0) /= 0) stop 9
  call omp_set_affinity_format('%N')
  i = omp_capture_affinity(text, '')
  if (i /= 1 .or. text /= '1') stop 10
  !$omp target map(tofrom: total)
  total = total + 1
  !$omp end target
  if (total /= 1276 .or. omp_get_wtime() <= 0) stop 11
  long = 0
  !$omp parallel num_threads(2)
  !$omp single
  !$omp task detach(event)
  long = long + 1
  !$omp end task
  !$omp task
  call omp_fulfill_event(event)
  !$omp end task
  !$omp end single
  !$omp end parallel
  if (long /= 1) stop 12
  call absent()
  print '(a)', 'fortran: right'
contains
  subroutine absent(values)
    integer, optional, allocatable :: values(:)
    !$omp target has_device_addr(values)
    if (present(values)) values = 42
    !$omp end target
  end subroutine
end program
