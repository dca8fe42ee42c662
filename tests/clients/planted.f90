! An element of an input is written between calls, or, with an argument, LAPACK hides its BLAS calls: the report must name the line.
program planted
    implicit none
    integer, parameter :: n = 512
    double precision, allocatable :: a(:, :), b(:, :), c(:, :)
    integer, parameter :: m = 1200
    double precision, allocatable :: s(:, :)
    integer :: k, info
    allocate (a(n, n), b(n, n), c(n, n))
    a = 1
    b = 2
    c = 0
    if (command_argument_count() > 0) then
        do k = 1, 30
            allocate (s(m, m))
            s = 0
            forall (info=1:m) s(info, info) = 2
            call dpotri('L', m, s, m, info) ! solver
            if (info /= 0 .or. s(m, m) /= 0.25d0) stop 1
            deallocate (s)
        end do
    end if
    do k = 1, 30
        call dgemm('N', 'N', n, n, n, 1d0, a, n, b, n, 0d0, c, n)
        a(k, 5*k) = a(k, 5*k) + 1 ! input
    end do
end program planted
