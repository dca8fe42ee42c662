% The workloads of BLASX's Table VI in ordinary Octave, for any BLAS.
%
%   octave-cli octave.m WORKLOAD SIZE REPETITIONS LEAST SECONDS
%
% Prints {"times": [...], "checks": [...]}: the seconds of each repetition, at least LEAST of them and no new one after
% SECONDS seconds, and numbers that must be the same with every BLAS. The time includes reading the workload's results.
1;

% Small integers: products of them are exact in single precision, too.
function a = integers(m, n, type)
    a = cast(floor(9 * rand(m, n)) - 4, type);
end

% A*B; the CPU reads two elements of the product, or all of them.
function checks = product(a, b, all)
    c = a * b;
    checks = double([c(1, 1), c(end, end)]);
    if all
        checks(end + 1) = sum(sum(c, "double"));
    end
end

% nnmf's multiplicative updates, ten of them, and the residual.
function checks = factorise(a, w, h)
    for k = 1:10
        h = h .* ((w' * a) ./ ((w' * w) * h + eps));
        w = w .* ((a * h') ./ (w * (h * h') + eps));
    end
    checks = [norm(a - w * h, "fro"), sum(sum(w)), sum(sum(h))];
end

% rotatefactors: the varimax criterion, five steps.
function checks = varimax(a)
    [p, m] = size(a);
    b = a;
    for k = 1:5
        [l, s, r] = svd(a' * (b .* b .* b - b * diag(sumsq(b)) / p));
        b = a * (l * r');
    end
    checks = [sum(diag(s)), sum(sumsq(b .* b))];
end

% Least squares with weights that follow the residual (normal equations), five rounds.
function checks = reweighted(a, b)
    w = ones(rows(a), 1);
    for k = 1:5
        x = (a' * (w .* a)) \ (a' * (w .* b));
        r = b - a * x;
        w = 1 ./ max(abs(r), 1e-3);
    end
    checks = [norm(x), sum(abs(r))];
end

arguments = argv();
workload = arguments{1};
[n, repetitions, least, limit] = num2cell(str2double(arguments(2:5))){:};
rand("twister", 1);
switch workload
    case {"product", "product read", "product single", "product single read"}
        type = "double";
        if any(strfind(workload, "single"))
            type = "single";
        end
        a = integers(n, n, type);
        b = integers(n, n, type);
        all = any(strfind(workload, "read"));
        run = @() product(a, b, all);
    case "nnmf"
        k = max(8, n / 32);
        a = rand(n, k) * rand(k, n) + 0.1 * rand(n);
        w = rand(n, k);
        h = rand(k, n);
        run = @() factorise(a, w, h);
    case "varimax"
        a = rand(n, n / 64) - 0.3;
        run = @() varimax(a);
    case "reweighted"
        a = rand(n, n / 8) - 0.5;
        b = a * ones(n / 8, 1) + (rand(n, 1) - 0.5) .* (rand(n, 1) < 0.1);
        run = @() reweighted(a, b);
    case "mldivide"
        a = rand(n, n / 4) - 0.5;
        b = rand(n, 1);
        run = @() norm(a \ b);
    case {"solve", "definite", "factors"}
        a = rand(n) - 0.5;
        b = rand(n, 1);
        s = a * a' + n * eye(n);
        switch workload
            case "solve"
                run = @() norm(a \ b);
            case "definite"
                run = @() norm(s \ b);
            otherwise
                run = @() [sum(sum(abs(chol(s)))), sum(sum(abs(inv(a)))), sum(sum(abs(lu(a))))];
        end
    otherwise
        error("no workload %s", workload);
end

times = [];
begun = tic;
while numel(times) < repetitions && (numel(times) < least || toc(begun) < limit)
    start = tic;
    checks = run();
    times(end + 1) = toc(start);
end
list = @(v) strjoin(arrayfun(@(x) sprintf("%.17g", x), v, "UniformOutput", false), ", ");
printf("{\"times\": [%s], \"checks\": [%s]}\n", list(times), list(checks));
