"""scikit-learn on whole numbers: labels and neighbours are exact, the rest is printed to eight digits."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import NearestNeighbors

i, j = np.arange(400)[:, None], np.arange(120)[None, :]
data = ((3 * i + 5 * j + i * j) % 23 - 11).astype(float)


def close(name, values):
    print(name, *(f"{v:.8g}" for v in np.ravel(values)[:4]))


close("PCA", PCA(n_components=4, svd_solver="full").fit(data).explained_variance_)
pca = PCA(n_components=4, svd_solver="randomized", random_state=1).fit(data)
close("PCA randomized", pca.singular_values_)
close("PCA transform", np.abs(pca.transform(data)).sum())

weights = np.arange(120) % 9 - 4.0
noise = np.random.default_rng(1).integers(-9, 9, data.shape).astype(float)
fit = LinearRegression().fit(noise, noise @ weights + 7)
print("LinearRegression", *np.rint(fit.coef_).astype(int)[:12], round(float(fit.intercept_), 6),
      np.abs(fit.coef_ - weights).max() < 1e-8)
close("Ridge", Ridge(alpha=2.0, solver="cholesky").fit(noise, noise @ weights).coef_)

groups = np.repeat(np.arange(8), 50)
blobs = noise + 100 * ((groups[:, None] * (np.arange(120)[None, :] + 1)) % 8)
means = KMeans(n_clusters=8, n_init=2, random_state=3).fit(blobs)
print("KMeans", [int(np.unique(means.labels_[groups == g]).size) for g in range(8)], f"{means.inertia_:.8g}")
near = NearestNeighbors(n_neighbors=3, algorithm="brute").fit(data)
distance, index = near.kneighbors(data + noise)
print("neighbours", int((distance ** 2).round().sum()), int(index[:, 0].sum()))
