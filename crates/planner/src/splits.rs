//! Every way to split devices into equally large groups that differ.
//!
//! Neither the order of the groups counts nor which of alike devices is where: a group is how many
//! it has of each class, and groups come in falling order. Sixteen devices can be grouped in 4.7
//! million ways; if they are four each of four classes, only 648 differ.

/// How many devices of each class each group has.
pub(crate) type Split = Vec<Vec<usize>>;

/// The splits of `counts[class]` devices into 1, 2, 3 and more groups, where they divide equally.
/// None if there are more than `most`.
pub(crate) fn splits(counts: &[usize], most: usize) -> Option<Vec<Split>> {
    let n_devices: usize = counts.iter().sum();
    let mut found = Vec::new();
    for size in group_sizes(n_devices) {
        let mut search = Search { left: counts.to_vec(), size, most, split: vec![], found };
        let is_all = search.next_group();
        found = search.found;
        if !is_all {
            return None;
        }
    }
    Some(found)
}

/// The sizes of groups that leave no device over, the largest first.
pub(crate) fn group_sizes(n_devices: usize) -> impl Iterator<Item = usize> {
    (1..=n_devices).rev().filter(move |size| n_devices.is_multiple_of(*size))
}

struct Search {
    /// Devices of each class that are in no group yet.
    left: Vec<usize>,
    size: usize,
    most: usize,
    /// The groups so far.
    split: Split,
    found: Vec<Split>,
}

impl Search {
    /// Completes the split in every way; false once there are too many.
    fn next_group(&mut self) -> bool {
        if self.left.iter().all(|&left| left == 0) {
            self.found.push(self.split.clone());
            return self.found.len() <= self.most;
        }
        let n_classes = self.left.len();
        self.split.push(vec![0; n_classes]);
        let is_all = self.fill(0, self.size, self.split.len() > 1);
        self.split.pop();
        is_all
    }

    /// Gives the last group `missing` more devices of `class` and later ones, in every way.
    /// `is_bound`: so far it equals the group before, which it may not exceed.
    fn fill(&mut self, class: usize, missing: usize, is_bound: bool) -> bool {
        let own = self.split.len() - 1;
        if class == self.left.len() {
            return missing > 0 || self.next_group();
        }
        let bound = if is_bound { self.split[own - 1][class] } else { missing };
        for n in (0..=missing.min(self.left[class]).min(bound)).rev() {
            self.split[own][class] = n;
            self.left[class] -= n;
            let is_all = self.fill(class + 1, missing - n, is_bound && n == bound);
            self.left[class] += n;
            self.split[own][class] = 0;
            if !is_all {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::splits;
    use std::collections::BTreeSet;

    /// Splits of single devices into groups of `size`: the first of them goes with any others.
    fn of_devices(devices: &[usize], size: usize) -> Vec<Vec<Vec<usize>>> {
        let Some((&first, rest)) = devices.split_first() else { return vec![vec![]] };
        let mut all = Vec::new();
        for mask in 0u32..1 << rest.len() {
            let is_in = |idx: usize| mask >> idx & 1 == 1;
            let pick = |wanted: bool| {
                let picked = (0..rest.len()).filter(move |&idx| is_in(idx) == wanted);
                picked.map(|idx| rest[idx]).collect::<Vec<_>>()
            };
            let (mut group, others) = (pick(true), pick(false));
            if group.len() + 1 == size {
                group.push(first);
                for mut groups in of_devices(&others, size) {
                    groups.push(group.clone());
                    all.push(groups);
                }
            }
        }
        all
    }

    #[test]
    fn all_that_differ_are_there_once() {
        for counts in
            [&[1, 1, 1, 1, 1, 1][..], &[2, 2, 2], &[3, 1, 2], &[6], &[4, 4], &[5, 1, 1, 1], &[5, 2]]
        {
            let classes: Vec<usize> =
                counts.iter().enumerate().flat_map(|(class, &n)| vec![class; n]).collect();
            let devices: Vec<usize> = (0..classes.len()).collect();
            let mut wanted = BTreeSet::new();
            for size in (1..=devices.len()).filter(|size| devices.len().is_multiple_of(*size)) {
                for groups in of_devices(&devices, size) {
                    let count = |group: &Vec<usize>| {
                        let n_of = |class| group.iter().filter(|&&d| classes[d] == class).count();
                        (0..counts.len()).map(n_of).collect::<Vec<_>>()
                    };
                    let mut split: Vec<_> = groups.iter().map(count).collect();
                    split.sort_by(|one, other| other.cmp(one));
                    wanted.insert(split);
                }
            }
            let found = splits(counts, wanted.len()).expect("all of them may be found");
            assert_eq!(found.len(), wanted.len());
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
            assert_eq!(splits(counts, wanted.len() - 1), None);
        }
    }
}
