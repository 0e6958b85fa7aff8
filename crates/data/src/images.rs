//! Synthetic images to classify: a template for each class, and noise.
//!
//! ```text
//! image i = (template of its class + noise * normal) / sqrt(1 + noise^2),  class = i mod classes
//! ```
//!
//! All pixels together have the variance 1, whatever the noise. A template is constant over blocks
//! of 4 x 4 pixels, so that what tells classes apart survives pooling.
//!
//! An image is a pure function of (seed, i): nothing is stored but the templates, and every rank
//! makes what it needs. Training sees the first images in an order of its own for each epoch
//! ([`crate::permutation`]); the last ones are held out. All arithmetic is of the sorts that every
//! machine rounds alike, so all of them make the same images.

use crate::DataError;
use crate::permutation::{KeyStream, Permutation};

/// Pixels on a side of a block of one value.
const BLOCK: usize = 4;
/// What sets the random numbers of templates and noise apart from each other and from the order's.
const TEMPLATES: u64 = 0x7465_6d70_6c61_7465;
const NOISE: u64 = 0x6e6f_6973_655f_5f5f;

/// What synthetic images are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageRule {
    /// Height and width in pixels.
    pub side: usize,
    /// Numbers in a pixel.
    pub channels: usize,
    /// Number of classes.
    pub classes: usize,
    /// Number of images, those held out included.
    pub n_images: usize,
    /// Deviation of the noise; that of the templates is 1.
    pub noise: f32,
    /// What all of it is drawn from.
    pub seed: u64,
}

/// Some of the images of a rule: those of one set (training or validation).
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSet {
    rule: ImageRule,
    /// By class, row of blocks, column of blocks and channel.
    templates: Vec<f32>,
    first: usize,
    n_images: usize,
}

/// Some images and their classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageBatch {
    /// Image by image, row by row, pixel by pixel: `batch * side * side * channels` values.
    pub pixels: Vec<f32>,
    /// By image.
    pub classes: Vec<u32>,
    /// `[batch, side * side, channels]`.
    pub shape: [usize; 3],
}

/// Two sets of images without a common one.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSplit {
    /// To learn from.
    pub train: ImageSet,
    /// To measure with.
    pub validation: ImageSet,
}

impl ImageSplit {
    /// Splits the images of `rule`: the share `fraction` of them, the last ones, is held out.
    ///
    /// # Errors
    /// The share is not above 0 and at most 0.5, or a set would be empty.
    pub fn new(rule: ImageRule, fraction: f64) -> Result<Self, DataError> {
        if !(fraction > 0.0 && fraction <= 0.5) {
            return Err(DataError::Fraction { found: fraction });
        }
        let n_held_out = (rule.n_images as f64 * fraction).round() as usize;
        let n_train = rule.n_images - n_held_out;
        if n_held_out == 0 || n_train == 0 {
            return Err(DataError::TooFewImages { n_images: rule.n_images, fraction });
        }
        let templates = templates(rule);
        let set =
            |first, n_images| ImageSet { rule, templates: templates.clone(), first, n_images };
        Ok(Self { train: set(0, n_train), validation: set(n_train, n_held_out) })
    }
}

impl ImageSet {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.n_images
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n_images == 0
    }

    /// The samples `first..first + n` of the order that `seed` selects. Each epoch sees each image
    /// once.
    pub fn batch(&self, seed: u64, first: u64, n: usize) -> ImageBatch {
        self.draw(self.places(seed, first, n), n)
    }

    /// Their classes alone.
    pub fn classes(&self, seed: u64, first: u64, n: usize) -> Vec<u32> {
        self.places(seed, first, n).map(|place| self.class(place)).collect()
    }

    /// Where samples of the order lie in the set.
    fn places(&self, seed: u64, first: u64, n: usize) -> impl Iterator<Item = usize> {
        let n_images = self.n_images as u64;
        (first..first + n as u64).map(move |sample| {
            let mut keys = KeyStream::new(seed, sample / n_images);
            Permutation::new(n_images, &mut keys).apply(sample % n_images) as usize
        })
    }

    fn class(&self, place: usize) -> u32 {
        let class = (self.first + place) % self.rule.classes;
        u32::try_from(class).expect("classes fit in 32 bits")
    }

    /// The images `first..first + n` of the set: validation.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn images(&self, first: usize, n: usize) -> ImageBatch {
        let n_images = self.n_images;
        assert!(first + n <= n_images, "images {first} and {n} on, of {n_images}");
        self.draw(first..first + n, n)
    }

    fn draw(&self, places: impl Iterator<Item = usize>, batch: usize) -> ImageBatch {
        let ImageRule { side, channels, noise, seed, .. } = self.rule;
        let n_blocks = side.div_ceil(BLOCK);
        let scale = 1.0 / (1.0 + noise * noise).sqrt();
        let shape = [batch, side * side, channels];
        let mut pixels = Vec::with_capacity(shape.iter().product());
        let mut classes = Vec::with_capacity(batch);
        for place in places {
            let class = self.class(place);
            let mut keys = KeyStream::new(seed ^ NOISE, (self.first + place) as u64);
            for pixel in 0..side * side {
                let (row, column) = (pixel / side / BLOCK, pixel % side / BLOCK);
                let block = (class as usize * n_blocks + row) * n_blocks + column;
                let template = &self.templates[block * channels..(block + 1) * channels];
                pixels
                    .extend(template.iter().map(|mean| (mean + noise * normal(&mut keys)) * scale));
            }
            classes.push(class);
        }
        ImageBatch { pixels, classes, shape }
    }
}

fn templates(rule: ImageRule) -> Vec<f32> {
    let n_values = rule.side.div_ceil(BLOCK).pow(2) * rule.channels;
    let of_class = |class: usize| {
        let mut keys = KeyStream::new(rule.seed ^ TEMPLATES, class as u64);
        (0..n_values).map(move |_| normal(&mut keys))
    };
    (0..rule.classes).flat_map(of_class).collect()
}

/// Nearly a standard normal number: the sum of the four even numbers of 16 bits in a key, about its
/// mean, over its deviation.
fn normal(keys: &mut KeyStream) -> f32 {
    let key = keys.next();
    let sum: u64 = (0..4).map(|part| (key >> (16 * part)) & 0xffff).sum();
    // Each has the variance (2^32 - 1) / 12, so that the sum has the deviation 2^16 / sqrt(3).
    (sum as f32 - 2.0 * 65_535.0) * (1.732_050_8 / 65_536.0)
}

#[cfg(test)]
mod tests {
    use super::{ImageBatch, ImageRule, ImageSplit};
    use expect_test::expect;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const RULE: ImageRule =
        ImageRule { side: 8, channels: 3, classes: 5, n_images: 100, noise: 0.5, seed: 1 };

    fn bits(batch: &ImageBatch) -> Vec<Vec<u32>> {
        let images = batch.pixels.chunks(batch.shape[1] * batch.shape[2]);
        images.map(|image| image.iter().map(|value| value.to_bits()).collect()).collect()
    }

    #[test]
    fn the_images_never_change() {
        let split = ImageSplit::new(RULE, 0.1).unwrap();
        let batch = split.train.batch(7, 0, 4);
        expect!["[4, 4, 4, 2] [-0.88, 0.93, -0.34, -0.18, 0.60]"].assert_eq(&format!(
            "{:?} {:.2?}",
            batch.classes,
            &batch.pixels[..5]
        ));
    }

    #[test]
    fn the_sets_share_no_image_and_an_epoch_sees_each_once() {
        let split = ImageSplit::new(RULE, 0.1).unwrap();
        assert_eq!((split.train.len(), split.validation.len()), (90, 10));
        let all = |batch: &ImageBatch| bits(batch).into_iter().collect::<BTreeSet<_>>();
        let train = all(&split.train.images(0, 90));
        let validation = all(&split.validation.images(0, 10));
        assert_eq!((train.len(), validation.len()), (90, 10));
        assert!(train.is_disjoint(&validation));
        for epoch in [0, 1, 5] {
            assert_eq!(all(&split.train.batch(3, 90 * epoch, 90)), train, "epoch {epoch}");
        }
        let order = |seed, first| split.train.batch(seed, first, 90).classes;
        assert_ne!(order(3, 0), order(3, 90));
        assert_ne!(order(3, 0), order(4, 0));
    }

    /// Of 18 images a class the mean is nearly the template, and they differ from it by the noise.
    #[test]
    fn classes_are_as_far_apart_as_templates_and_noise_says() {
        let set = ImageSplit::new(RULE, 0.1).unwrap().train;
        let batch = set.images(0, 90);
        let n_values = 8 * 8 * 3;
        let mean = |class: u32| -> Vec<f64> {
            let of_class = |&(_, &found): &(&[f32], &u32)| found == class;
            let images = batch.pixels.chunks(n_values).zip(&batch.classes).filter(of_class);
            let images: Vec<_> = images.map(|(image, _)| image).collect();
            let n = images.len() as f64;
            let sum = |at: usize| images.iter().map(|image| f64::from(image[at])).sum::<f64>();
            (0..n_values).map(|at| sum(at) / n).collect()
        };
        let means: Vec<Vec<f64>> = (0..5).map(mean).collect();
        let distance = |one: &[f64], other: &[f64]| {
            let squares = one.iter().zip(other).map(|(a, b)| (a - b).powi(2));
            (squares.sum::<f64>() / n_values as f64).sqrt()
        };
        for (idx, one) in means.iter().enumerate() {
            for other in &means[..idx] {
                assert!(distance(one, other) > 0.7, "{idx}: {}", distance(one, other));
            }
        }
        let spread = batch.pixels.chunks(n_values).zip(&batch.classes).map(|(image, &class)| {
            let image: Vec<f64> = image.iter().map(|&value| f64::from(value)).collect();
            distance(&image, &means[class as usize]).powi(2)
        });
        let spread = (spread.sum::<f64>() / 90.0).sqrt();
        // The mean of 18 is nearer to them than the template is.
        let wanted = (0.2_f64 * 17.0 / 18.0).sqrt();
        assert!((spread - wanted).abs() < 0.01, "the noise is {spread}, not {wanted}");
        let squares = batch.pixels.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        let variance = squares / batch.pixels.len() as f64;
        assert!((variance - 1.0).abs() < 0.2, "the variance is {variance}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let message = |rule, fraction| ImageSplit::new(rule, fraction).unwrap_err().to_string();
        assert!(message(RULE, 0.6).starts_with("a validation share of 0.6 is not above 0"));
        expect![
            "a validation share of 0.1 of 3 images leaves a set without an image; use more images"
        ]
        .assert_eq(&message(ImageRule { n_images: 3, ..RULE }, 0.1));
        let panic = std::panic::catch_unwind(|| {
            ImageSplit::new(RULE, 0.1).unwrap().validation.images(8, 3)
        });
        let message = panic.unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("images 8 and 3 on, of 10"), "{message}");
    }

    proptest! {
        #[test]
        fn ranks_may_share_a_batch_in_any_way(
            seed: u64, first in 0_u64..5000, shares in prop::collection::vec(0_usize..4, 1..5),
        ) {
            let set = ImageSplit::new(RULE, 0.1).unwrap().train;
            let whole = set.batch(seed, first, shares.iter().sum());
            let mut joined = ImageBatch { pixels: vec![], classes: vec![], shape: [0, 64, 3] };
            for share in shares {
                // A rank makes its set itself.
                let own = ImageSplit::new(RULE, 0.1).unwrap().train;
                let own = own.batch(seed, first + joined.shape[0] as u64, share);
                joined.pixels.extend(own.pixels);
                joined.classes.extend(own.classes);
                joined.shape[0] += share;
            }
            prop_assert_eq!(&whole.classes, &set.classes(seed, first, whole.shape[0]));
            prop_assert_eq!(joined, whole);
        }
    }
}
