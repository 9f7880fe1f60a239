/// Search range in frames, within which [`super::LineFitter::refine`] converges.
pub const NEAR: i64 = 8;
/// Share of the best correlation at which a nearer peak is preferred.
pub const AS_LIKELY: f64 = 0.98;
const LIKELY: f64 = 0.5;
const MAX_REST: u32 = 4;

/// 0, 1, −1, 2, −2 … up to `reach`.
pub fn outwards(reach: i64) -> impl Iterator<Item = i64> {
    (0..=reach).flat_map(|away| [away, -away])
}

/// Offset and correlation within [`NEAR`] frames, of either polarity. Prefers a nearer peak that is
/// almost as good. Allocates nothing.
pub fn likeliest(mut correlation: impl FnMut(i64) -> f64) -> Option<(i64, f64)> {
    // Holes give NaN: no similarity.
    let likes: [f64; 2 * NEAR as usize + 1] = core::array::from_fn(|at| {
        let like = correlation(at as i64 - NEAR);
        if like.is_nan() { 0.0 } else { like }
    });
    let best = likes.iter().fold(0.0_f64, |best, like| best.max(like.abs()));
    let like = |at: usize| likes.get(at).map_or(0.0, |like| like.abs());
    let is_top = |at: &usize| {
        let around = at.checked_sub(1).map_or(0.0, like).max(like(at + 1));
        like(*at) >= around.max(AS_LIKELY * best)
    };
    let away = |at: usize| at as i64 - NEAR;
    let at = (0..likes.len()).filter(is_top).min_by_key(|at| away(*at).abs())?;
    (best >= LIKELY).then_some((away(at), likes[at]))
}

/// Exponential backoff of an expensive search.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    timeout: u32,
    failures: u32,
    left: u32,
}

impl Backoff {
    /// Pauses from this number of consecutive failures on.
    pub const fn after(timeout: u32) -> Self {
        Self { timeout, failures: 0, left: 0 }
    }

    /// Whether the search is due; otherwise shortens the pause by one.
    pub fn is_over(&mut self) -> bool {
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }

    /// Whether an attempt failed since the last success.
    pub const fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Records a failure.
    pub fn fail(&mut self) {
        self.failures += 1;
        self.left = match self.failures.checked_sub(self.timeout) {
            Some(more) => 1 << more.min(MAX_REST),
            None => 0,
        };
    }

    /// Records a success.
    pub fn end(&mut self) {
        (self.failures, self.left) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nearer_top_as_alike_is_taken_and_a_slope_is_no_top() {
        let like = |away: i64| match away {
            -6 => 0.9,
            -5 | 1 => 0.885,
            2 => -0.89,
            5 => 0.8,
            8 => f64::NAN,
            _ => 0.1,
        };
        assert_eq!(likeliest(like), Some((2, -0.89)));
        assert_eq!(likeliest(|away| if away == 2 { 0.0 } else { like(away) }), Some((1, 0.885)));
        assert_eq!(likeliest(|away| 0.5 * like(away)), None);
    }

    #[test]
    fn rests_double_from_the_failure_on_that_ends_patience() {
        let mut backoff = Backoff::after(2);
        let rests = [(); 8].map(|()| {
            backoff.fail();
            (0..).take_while(|_| !backoff.is_over()).count()
        });
        assert_eq!(rests, [0, 1, 2, 4, 8, 16, 16, 16]);
        backoff.end();
        assert!(!backoff.has_failed() && backoff.is_over());
    }
}
