//! Sparse array of bin counts, allocated in pages.

const PAGE: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Pages {
    pages: Vec<Option<Box<Page>>>,
    total: u64,
}

#[derive(Debug, Clone)]
struct Page {
    total: u64,
    counts: BinCounts,
}

#[derive(Debug, Clone)]
enum BinCounts {
    Few([u16; PAGE]),
    Many(Box<[u64; PAGE]>),
}

impl BinCounts {
    fn count(&mut self, bin: usize) {
        match self {
            Self::Many(counts) => counts[bin] += 1,
            Self::Few(counts) => match counts[bin].checked_add(1) {
                Some(more) => counts[bin] = more,
                None => {
                    let mut many = Box::new(counts.map(u64::from));
                    many[bin] += 1;
                    *self = Self::Many(many);
                }
            },
        }
    }

    fn bin_after(&self, before: u64) -> Option<usize> {
        match self {
            Self::Few(counts) => position(counts.iter().copied().map(u64::from), before),
            Self::Many(counts) => position(counts.iter().copied(), before),
        }
        .map(|(bin, _)| bin)
    }
}

impl Pages {
    pub(super) fn count(&mut self, bin: usize) {
        let page = bin / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page]
            .get_or_insert_with(|| Box::new(Page { total: 0, counts: BinCounts::Few([0; PAGE]) }));
        page.total += 1;
        page.counts.count(bin % PAGE);
        self.total += 1;
    }

    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn bin_after(&self, before: u64) -> Option<usize> {
        let totals = self.pages.iter().map(|page| page.as_ref().map_or(0, |page| page.total));
        let (index, before) = position(totals, before)?;
        let page = self.pages[index].as_ref()?;
        page.counts.bin_after(before).map(|bin| index * PAGE + bin)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().map(|page| match &page.counts {
            BinCounts::Few(_) => size_of::<Page>(),
            BinCounts::Many(counts) => size_of::<Page>() + size_of_val(&**counts),
        });
        self.pages.capacity() * size_of::<Option<Box<Page>>>() + pages.sum::<usize>()
    }
}

fn position(counts: impl Iterator<Item = u64>, mut before: u64) -> Option<(usize, u64)> {
    for (index, count) in counts.enumerate() {
        if before < count {
            return Some((index, before));
        }
        before -= count;
    }
    None
}
