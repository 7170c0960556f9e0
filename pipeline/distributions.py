"""The laws of durations: exponential, Weibull, lognormal, gamma, each one small object.

A law knows its log density and log survival with first and second derivatives in the parameters in
which it is fitted: logarithms of positive parameters, so that every real vector is allowed. The
location is 0 always: a free location lets the likelihood grow without bound at the smallest time.

`theta` is (k, m): a row per parameter, a column per sample, or per age. Ages are in units of the
sample's median.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from scipy import special

from pipeline.durations import Batch, Floats, Rows

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Terms(NamedTuple):
    """A function of the parameters: value, gradient, upper triangle of the Hessian.

    With one parameter the Hessian has one part, with two the parts (aa, ab, bb).
    """

    value: Floats
    gradient: tuple[Floats, ...]
    hessian: tuple[Floats, ...]


class Kind(StrEnum):
    """What a parameter is, and so how it is fitted and how it changes with the unit of time."""

    SHAPE = "shape"  # positive, without unit; fitted as its logarithm
    SCALE = "scale"  # a positive time; fitted as its logarithm
    LOG_TIME = "log_time"  # the logarithm of a time; fitted as it is


class Law(Protocol):
    """What the engine asks of a law."""

    @property
    def name(self) -> str:
        """Name in tables and JSON."""

    @property
    def parameters(self) -> dict[str, Kind]:
        """Names and kinds of the parameters, in the order of `theta`."""

    def start(self, batch: Batch) -> Floats:
        """(k, samples): a rough guess from which the fit finds its way."""

    def log_density(self, batch: Batch, theta: Floats) -> Terms:
        """Summed log density of the exact ends of every sample."""

    def parts(self, rows: Rows, theta: Floats) -> tuple[Floats, ...]:
        """What log survival and its derivatives are linear in, row by row; ages above 0."""

    def log_survival(self, parts: tuple[Floats, ...], theta: Floats) -> Terms:
        """log P(T > t) from the parts of single rows, or summed from the sums of their parts."""

    def survival(self, t: Floats, theta: Floats) -> Floats:
        """P(T > t), age by age."""

    def draw(self, rng: np.random.Generator, theta: Floats, shape: tuple[int, ...]) -> Floats:
        """Random durations; theta (k,)."""

    def quantile(self, survival: Floats, theta: Floats) -> Floats:
        """Age at which P(T > age) is `survival`; theta (k,)."""


class Exponential:
    """Constant hazard: S(t) = exp(-t / mean). Fitted: log mean.

    With exact and right-censored ends the estimate is time at risk / ends.
    """

    name = "exponential"
    parameters: ClassVar = {"mean": Kind.SCALE}

    def start(self, batch: Batch) -> Floats:
        """The closed form, exact unless ends lie between two instants."""
        return np.log(batch.exposure / np.maximum(batch.n_events, 0.5))[None]

    def log_density(self, batch: Batch, theta: Floats) -> Terms:
        """-log mean - t / mean, summed."""
        scaled = batch.events.sum_t * np.exp(-theta[0])
        n = batch.events.count
        return Terms(-n * theta[0] - scaled, (scaled - n,), (-scaled,))

    def parts(self, rows: Rows, theta: Floats) -> tuple[Floats, ...]:
        """t."""
        return (rows.t,)

    def log_survival(self, parts: tuple[Floats, ...], theta: Floats) -> Terms:
        """-t / mean."""
        scaled = parts[0] * np.exp(-theta[0])
        return Terms(-scaled, (scaled,), (-scaled,))

    def survival(self, t: Floats, theta: Floats) -> Floats:
        """exp(-t / mean)."""
        return np.asarray(np.exp(-t * np.exp(-theta[0])))

    def draw(self, rng: np.random.Generator, theta: Floats, shape: tuple[int, ...]) -> Floats:
        """Random durations."""
        return np.asarray(rng.standard_exponential(shape) * np.exp(theta[0]))

    def quantile(self, survival: Floats, theta: Floats) -> Floats:
        """-mean log(survival)."""
        return np.asarray(-np.log(survival) * np.exp(theta[0]))


class Weibull:
    """Hazard a power of age: S(t) = exp(-(t / scale)^shape). Fitted: log shape, log scale.

    shape < 1: failures come early; 1: exponential; > 1: wear. With u = shape (log t - log scale):
    log S = -e^u, log f = log shape - log t + u - e^u.
    """

    name = "weibull"
    parameters: ClassVar = {"shape": Kind.SHAPE, "scale": Kind.SCALE}

    def start(self, batch: Batch) -> Floats:
        """Shape from the spread of the log ends, then the scale that fits best at this shape."""
        shape = np.clip(math.pi / math.sqrt(6) / batch.log_moments[1], 0.1, 50)
        n = np.maximum(batch.n_events, 0.5)
        powers = np.zeros(batch.n_samples)
        for rows in (batch.events, batch.survivors, batch.upper):
            powers += rows.total(rows.t ** shape[rows.owner])
        rough = np.log(batch.exposure / n)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_scale = np.log(powers / n) / shape
        return np.stack([np.log(shape), np.where(np.isfinite(log_scale), log_scale, rough)])

    def log_density(self, batch: Batch, theta: Floats) -> Terms:
        """Log hazard (log shape - log t + u, from sums) plus log survival."""
        rows, shape = batch.events, np.exp(theta[0])
        n, sum_u = rows.count, shape * (rows.sum_log_t - rows.count * theta[1])
        alive = self.log_survival(rows.totals(self.parts(rows, theta)), theta)
        aa, ab, bb = alive.hessian
        return Terms(
            n * theta[0] - rows.sum_log_t + sum_u + alive.value,
            (n + sum_u + alive.gradient[0], alive.gradient[1] - n * shape),
            (sum_u + aa, ab - n * shape, bb),
        )

    def parts(self, rows: Rows, theta: Floats) -> tuple[Floats, ...]:
        """e^u, u e^u, u^2 e^u."""
        u = np.exp(theta[0])[rows.owner] * (rows.log_t - theta[1][rows.owner])
        power = np.exp(u)
        first = power * u
        return power, first, first * u

    def log_survival(self, parts: tuple[Floats, ...], theta: Floats) -> Terms:
        """-e^u."""
        shape = np.exp(theta[0])
        power, first, second = parts
        return Terms(
            -power,
            (-first, shape * power),
            (-second - first, shape * (power + first), -(shape**2) * power),
        )

    def survival(self, t: Floats, theta: Floats) -> Floats:
        """exp(-(t / scale)^shape)."""
        return np.asarray(np.exp(-np.exp(np.exp(theta[0]) * (np.log(t) - theta[1]))))

    def draw(self, rng: np.random.Generator, theta: Floats, shape: tuple[int, ...]) -> Floats:
        """Random durations: a power of exponential ones."""
        draws = np.log(rng.standard_exponential(shape))
        return np.asarray(np.exp(theta[1] + draws * np.exp(-theta[0])))

    def quantile(self, survival: Floats, theta: Floats) -> Floats:
        """scale (-log survival)^(1 / shape)."""
        return np.asarray(np.exp(theta[1] + np.log(-np.log(survival)) * np.exp(-theta[0])))


class Lognormal:
    """log T is normal(mu, sigma). Fitted: mu, log sigma. The default for repair times.

    With z = (log t - mu) / sigma and h = phi(z) / Phi(-z): log S = log Phi(-z), its derivative in z
    is -h, and that of -h is -h (h - z).
    """

    name = "lognormal"
    parameters: ClassVar = {"mu": Kind.LOG_TIME, "sigma": Kind.SHAPE}

    def start(self, batch: Batch) -> Floats:
        """Moments of the log ends."""
        mean, deviation = batch.log_moments
        return np.stack([mean, np.log(deviation)])

    def log_density(self, batch: Batch, theta: Floats) -> Terms:
        """log phi(z) - log sigma - log t, from sums."""
        rows, mu, sigma = batch.events, theta[0], np.exp(theta[1])
        n = rows.count
        z = (rows.sum_log_t - n * mu) / sigma
        z2 = (rows.sum_log_t2 - 2 * mu * rows.sum_log_t + n * mu**2) / sigma**2
        return Terms(
            -n * (_HALF_LOG_2PI + theta[1]) - rows.sum_log_t - z2 / 2,
            (z / sigma, z2 - n),
            (-n / sigma**2, -2 * z / sigma, -2 * z2),
        )

    def parts(self, rows: Rows, theta: Floats) -> tuple[Floats, ...]:
        """log S, h, z h, and c = -h (h - z), z c, z^2 c."""
        z = (rows.log_t - theta[0][rows.owner]) * np.exp(-theta[1])[rows.owner]
        value = special.log_ndtr(-z)
        ratio = np.exp(-0.5 * z * z - _HALF_LOG_2PI - value)
        bend = ratio * (z - ratio)
        bend_z = bend * z
        return value, ratio, ratio * z, bend, bend_z, bend_z * z

    def log_survival(self, parts: tuple[Floats, ...], theta: Floats) -> Terms:
        """log Phi(-z)."""
        sigma = np.exp(theta[1])
        value, ratio, ratio_z, bend, bend_z, bend_z2 = parts
        return Terms(
            value,
            (ratio / sigma, ratio_z),
            (bend / sigma**2, (bend_z - ratio) / sigma, bend_z2 - ratio_z),
        )

    def survival(self, t: Floats, theta: Floats) -> Floats:
        """Phi(-z)."""
        return np.asarray(special.ndtr((theta[0] - np.log(t)) * np.exp(-theta[1])))

    def draw(self, rng: np.random.Generator, theta: Floats, shape: tuple[int, ...]) -> Floats:
        """Random durations."""
        return np.asarray(np.exp(theta[0] + rng.standard_normal(shape) * np.exp(theta[1])))

    def quantile(self, survival: Floats, theta: Floats) -> Floats:
        """exp(mu - sigma Phi^-1(survival))."""
        return np.asarray(np.exp(theta[0] - special.ndtri(survival) * np.exp(theta[1])))


class Gamma:
    """Density proportional to t^(shape - 1) exp(-t / scale); mean shape x scale.

    Fitted: log shape, log scale. S(t) = Q(shape, x) with x = t / scale, the regularised upper
    incomplete gamma function. Derivatives in log scale follow from the hazard in log age,
    H = x^shape e^-x / (Gamma(shape) Q). Q has no closed derivative in its shape: central
    differences of fourth order in log shape.
    """

    name = "gamma"
    parameters: ClassVar = {"shape": Kind.SHAPE, "scale": Kind.SCALE}
    step = 2e-2  # truncation and rounding stay near 1e-10 of gradient and curvature

    def start(self, batch: Batch) -> Floats:
        """Shape from the spread of the log ends, then the scale that gives their rate."""
        variance = batch.log_moments[1] ** 2  # = trigamma(shape) ~ 1/shape + 1/(2 shape^2)
        shape = np.clip((1 + np.sqrt(1 + 2 * variance)) / (2 * variance), 0.05, 500)
        rate = batch.exposure / np.maximum(batch.n_events, 0.5)
        return np.stack([np.log(shape), np.log(rate / shape)])

    def log_density(self, batch: Batch, theta: Floats) -> Terms:
        """(shape - 1) log t - t / scale - shape log scale - log Gamma(shape), from sums."""
        rows, shape, log_scale = batch.events, np.exp(theta[0]), theta[1]
        n, scaled = rows.count, rows.sum_t * np.exp(-log_scale)
        slope = shape * (rows.sum_log_t - n * (log_scale + special.psi(shape)))
        constant = n * (shape * log_scale + special.gammaln(shape))
        return Terms(
            (shape - 1) * rows.sum_log_t - scaled - constant,
            (slope, scaled - n * shape),
            (slope - n * shape**2 * special.zeta(2, shape), -n * shape, -scaled),
        )

    def parts(self, rows: Rows, theta: Floats) -> tuple[Floats, ...]:
        """log Q; its first and second difference in log shape; H; and dH in log shape and scale."""
        shape, log_scale = np.exp(theta[0])[rows.owner], theta[1][rows.owner]
        digamma, log_gamma = special.psi(np.exp(theta[0])), special.gammaln(np.exp(theta[0]))
        x, log_x = rows.t * np.exp(-log_scale), rows.log_t - log_scale
        # P changes with shape on the scale of its root, and faster far below the median
        below = np.maximum(theta[0][rows.owner] - log_x, 0.0)
        step = self.step / (1 + np.sqrt(shape) + shape * below)
        low2, low, value, high, high2 = (
            _log_upper_gamma(shape * np.exp(i * step), x) for i in (-2, -1, 0, 1, 2)
        )
        slope = (low2 - 8 * low + 8 * high - high2) / (12 * step)
        curvature = (16 * (low + high) - low2 - high2 - 30 * value) / (12 * step**2)
        hazard = np.exp(shape * log_x - x - log_gamma[rows.owner] - value)
        mixed = hazard * (shape * (log_x - digamma[rows.owner]) - slope)
        return value, slope, curvature, hazard, mixed, hazard * (x - shape - hazard)

    def log_survival(self, parts: tuple[Floats, ...], theta: Floats) -> Terms:
        """log Q(shape, t / scale)."""
        value, slope, curvature, hazard, mixed, bend = parts
        return Terms(value, (slope, hazard), (curvature, mixed, bend))

    def survival(self, t: Floats, theta: Floats) -> Floats:
        """Q(shape, t / scale)."""
        return np.asarray(1 - special.gammainc(np.exp(theta[0]), t * np.exp(-theta[1])))

    def draw(self, rng: np.random.Generator, theta: Floats, shape: tuple[int, ...]) -> Floats:
        """Random durations."""
        return np.asarray(rng.standard_gamma(float(np.exp(theta[0])), shape) * np.exp(theta[1]))

    def quantile(self, survival: Floats, theta: Floats) -> Floats:
        """scale times the inverse of Q."""
        return np.asarray(special.gammainccinv(np.exp(theta[0]), survival) * np.exp(theta[1]))


def _log_upper_gamma(shape: Floats, x: Floats) -> Floats:
    """log Q(shape, x): from P while Q keeps its digits so, since P is several times faster; from
    the continued fraction of DLMF 8.9.2 where Q underflows."""
    low = special.gammainc(shape, x)
    with np.errstate(divide="ignore"):
        value: Floats = np.log1p(-low)
    tail = np.flatnonzero(low > 0.99)
    if tail.size:
        a, far = shape[tail], x[tail]
        upper = special.gammaincc(a, far)
        is_gone = upper < 1e-290
        logs = np.log(np.where(is_gone, 1.0, upper))
        logs[is_gone] = _log_upper_gamma_far(a[is_gone], far[is_gone])
        value[tail] = logs
    return value


def _log_upper_gamma_far(shape: Floats, x: Floats, depth: int = 40) -> Floats:
    """log Q(shape, x) for x far above shape; `depth` levels of the continued fraction."""
    fraction = x + 1 - shape + 2 * depth
    for level in range(depth, 0, -1):
        fraction = x - 1 - shape + 2 * level - level * (level - shape) / fraction
    log_q: Floats = shape * np.log(x) - x - special.gammaln(shape) - np.log(fraction)
    return log_q


EXPONENTIAL, WEIBULL, LOGNORMAL, GAMMA = Exponential(), Weibull(), Lognormal(), Gamma()
LAWS: tuple[Law, ...] = (EXPONENTIAL, WEIBULL, LOGNORMAL, GAMMA)
"""Every law that is fitted, in the order in which reports list them."""
