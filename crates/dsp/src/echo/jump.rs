//! Finds jumps of the delay between loudspeaker and microphone.

use super::transform::{Bins, Transform};

/// Decimated rate of the search in Hz.
const COARSE: usize = 8000;
const LENGTH: usize = 8192;
const RECENT: usize = COARSE / 5;
/// Minimum correlation of a jump. A changed room has less.
const ALIKE: f32 = 0.7;

struct History {
    fine: Box<[f32]>,
    end: usize,
    coarse: Box<[f32]>,
    sum: f32,
    summed: usize,
    stride: usize,
}

impl History {
    fn new(length: usize, stride: usize) -> Self {
        Self {
            fine: vec![0.0; length].into(),
            end: 0,
            coarse: vec![0.0; LENGTH].into(),
            sum: 0.0,
            summed: 0,
            stride,
        }
    }

    fn push(&mut self, samples: &[f32]) {
        let sums = (self.summed + samples.len()) / self.stride;
        self.coarse.copy_within(sums.min(LENGTH).., 0);
        let mut place = LENGTH - sums.min(LENGTH);
        for sample in samples {
            self.fine[self.end] = *sample;
            self.end = (self.end + 1) % self.fine.len();
            self.sum += sample;
            self.summed += 1;
            if self.summed == self.stride {
                self.coarse[place] = core::mem::take(&mut self.sum);
                place += 1;
                self.summed = 0;
            }
        }
    }

    fn before(&self, age: usize) -> f32 {
        let length = self.fine.len();
        self.fine[(self.end + 2 * length - 1 - age) % length]
    }
}

pub(super) struct JumpFinder {
    captured: History,
    estimated: History,
    stride: usize,
    longest: usize,
    transform: Transform,
    window: Box<[f32]>,
    recent: Bins,
    all: Bins,
    stage: usize,
    since: usize,
}

impl JumpFinder {
    pub(super) fn new(hertz: usize, longest: usize) -> Self {
        let stride = (hertz / COARSE).max(1);
        let longest = longest.min(stride * (LENGTH - RECENT - 1));
        let history = || History::new(longest + stride * (RECENT + 4), stride);
        Self {
            captured: history(),
            estimated: history(),
            stride,
            longest,
            transform: Transform::new(LENGTH / 2),
            window: vec![0.0; LENGTH].into(),
            recent: Bins::new(LENGTH / 2 + 1),
            all: Bins::new(LENGTH / 2 + 1),
            stage: 0,
            since: 0,
        }
    }

    pub(super) fn push(&mut self, captured: &[f32], estimated: &[f32]) {
        self.since += captured.len();
        self.captured.push(captured);
        self.estimated.push(estimated);
    }

    /// A quarter of a search, to limit the time per period. Returns how many frames the echo is
    /// late.
    pub(super) fn search(&mut self) -> Option<i64> {
        let stage = self.stage;
        self.stage = (stage + 1) % 4;
        let later = stage < 2;
        let (recent, all) = match later {
            true => (&self.captured, &self.estimated),
            false => (&self.estimated, &self.captured),
        };
        if stage.is_multiple_of(2) {
            let rest = LENGTH - RECENT;
            self.window[..rest].fill(0.0);
            self.window[rest..].copy_from_slice(&recent.coarse[rest..]);
            self.transform.forward(&self.window, &mut self.recent);
            self.since = 0;
            return None;
        }
        self.transform.forward(&all.coarse, &mut self.all);
        // Whitened for the narrowest peak.
        for k in 0..self.all.re.len() {
            let (are, aim) = (self.recent.re[k], self.recent.im[k]);
            let (bre, bim) = (self.all.re[k], self.all.im[k]);
            let (re, im) = (are * bre + aim * bim, aim * bre - are * bim);
            let size = (re * re + im * im).sqrt().sqrt() + 1e-12;
            (self.all.re[k], self.all.im[k]) = (re / size, im / size);
        }
        self.transform.inverse(&self.all, &mut self.window);
        let from = self.since / self.stride;
        let lags = self.window.iter().skip(from).take(self.longest / self.stride + 1);
        let peak = lags.enumerate().max_by(|one, other| one.1.total_cmp(other.1))?.0;
        let lag = refined(recent, all, peak * self.stride, self.stride)?;
        let lag = if later { lag } else { -lag };
        (lag != 0).then_some(lag)
    }
}

fn refined(recent: &History, all: &History, near: usize, stride: usize) -> Option<i64> {
    let count = stride * RECENT / 2;
    let reach = 2 * stride as i64;
    let alike = |lag: i64| {
        let (mut both, mut one, mut other) = (0.0_f32, 1e-12_f32, 1e-12_f32);
        // Every second sample suffices.
        for age in (reach as usize..count).step_by(2) {
            let a = recent.before(age);
            let b = all.before((age as i64 + lag) as usize);
            both += a * b;
            one += a * a;
            other += b * b;
        }
        both / (one * other).sqrt()
    };
    let lags = near as i64 - reach..=near as i64 + reach;
    let best = lags.map(|lag| (alike(lag), lag)).max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > ALIKE).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_both_ways_are_found_to_the_sample() {
        for jump in [1200_i64, -1201, 17, -333, 20_000] {
            let mut random = fastrand::Rng::with_seed(7);
            let sound: Vec<f32> = (0..96_000).map(|_| random.f32() - 0.5).collect();
            let mut finder = JumpFinder::new(48_000, 24_000);
            let at = |frame: i64| usize::try_from(frame).map_or(0.0, |frame| sound[frame]);
            let mut found = Vec::new();
            for block in 0..150_i64 {
                let estimated: Vec<f32> = (0..512).map(|frame| at(block * 512 + frame)).collect();
                let shift = if block < 120 { 0 } else { jump };
                let captured: Vec<f32> =
                    (0..512).map(|frame| at(block * 512 + frame - shift)).collect();
                finder.push(&captured, &estimated);
                if block >= 146 {
                    found.extend(finder.search());
                }
            }
            assert!(found.contains(&jump), "{jump}: {found:?}");
        }
    }

    #[test]
    fn unlike_sounds_are_no_jump() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut noise = || (0..512).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
        let mut finder = JumpFinder::new(48_000, 24_000);
        (0..150).for_each(|_| finder.push(&noise(), &noise()));
        assert_eq!((0..4).find_map(|_| finder.search()), None);
    }
}
