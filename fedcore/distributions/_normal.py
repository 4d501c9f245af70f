"""The normal distribution's quantiles and shares, elementwise.

Quantiles: Wichura, "Algorithm AS 241: The Percentage Points of the Normal
Distribution", Applied Statistics 37(3), 1988, PPND16 (about 16 digits).
"""

import math

import numpy as np

from fedcore.distributions.base import Floats

# Coefficients from the constant to the seventh power.
_CENTRE = (
    (
        *(3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427),
        *(13731.693765509461125, 45921.953931549871457, 67265.770927008700853),
        *(33430.575583588128105, 2509.0809287301226727),
    ),
    (
        *(1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077),
        *(21213.794301586595867, 39307.895800092710610, 28729.085735721942674),
        5226.4952788528545610,
    ),
)
_FLANK = (
    (
        *(1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550),
        *(3.64784832476320460504, 1.27045825245236838258, 0.241780725177450611770),
        *(0.0227238449892691845833, 7.74545014278341407640e-4),
    ),
    (
        *(1.0, 2.05319162663775882187, 1.67638483018380384940),
        *(0.689767334985100004550, 0.148103976427480074590, 0.0151986665636164571966),
        *(5.47593808499534494600e-4, 1.05075007164441684324e-9),
    ),
)
_TAIL = (
    (
        *(6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580),
        *(0.296560571828504891230, 0.0265321895265761230930, 0.00124266094738807843860),
        *(2.71155556874348757815e-5, 2.01033439929228813265e-7),
    ),
    (
        *(1.0, 0.599832206555887937690, 0.136929880922735805310),
        *(0.0148753612908506148525, 7.86869131145613259100e-4),
        *(1.84631831751005468180e-5, 1.42151175831644588870e-7),
        2.04426310338993978564e-15,
    ),
)
_CENTRAL = 0.425  # the first ratio holds up to this distance from one half
_FAR = 5.0  # the second ratio holds up to this √(-ln of the share)


def normal_quantile(u_N: Floats) -> Floats:
    """Returns Φ⁻¹ of shares in (0, 1)."""
    q_N = u_N - 0.5
    z_N = q_N * _ratio(_CENTRE, _CENTRAL**2 - q_N * q_N)
    outer_K = np.flatnonzero(np.abs(q_N) > _CENTRAL)
    if len(outer_K):
        u_K = u_N[outer_K]
        r_K = np.sqrt(-np.log(np.minimum(u_K, 1.0 - u_K)))
        far_K = _ratio(_FLANK, r_K - 1.6)
        tail_T = np.flatnonzero(r_K > _FAR)
        if len(tail_T):
            far_K[tail_T] = _ratio(_TAIL, r_K[tail_T] - _FAR)
        z_N[outer_K] = np.copysign(far_K, q_N[outer_K])
    return z_N


def normal_cdf(z_N: Floats) -> Floats:
    """Returns Φ, the share of values up to each of ``z_N``."""
    shares = (0.5 * math.erfc(-z * math.sqrt(0.5)) for z in z_N.tolist())
    return np.fromiter(shares, np.float64, len(z_N))


def _ratio(powers: tuple[tuple[float, ...], tuple[float, ...]], r_N: Floats) -> Floats:
    above_N, below_N = (_polynomial(coefficients, r_N) for coefficients in powers)
    above_N /= below_N
    return above_N


def _polynomial(coefficients: tuple[float, ...], r_N: Floats) -> Floats:
    *lower, highest = coefficients
    value_N = r_N * highest
    for coefficient in lower[:0:-1]:
        value_N += coefficient
        value_N *= r_N
    value_N += lower[0]
    return value_N
