//! The sizes of a convolutional network, checked once.

use crate::ModelError;
use crate::family::hash;

/// The sizes of a classifier of images in VGG's form: convolutions of 3 x 3, each with ReLU and a
/// pooling that halves the image, then fully connected layers with ReLU, then the classes.
///
/// Most parameters are in the fully connected layers, most activations in the first convolutions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvConfig {
    /// Height and width of an image, in pixels; a multiple of 2 to the number of convolutions.
    pub image: usize,
    /// Numbers in a pixel of it.
    pub channels: usize,
    /// Channels after each convolution; at least one.
    pub convolutions: Vec<usize>,
    /// Widths of the fully connected layers before the classes; there may be none.
    pub hidden: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
}

/// Largest legal sizes. With them no count of parameters, bytes or FLOPs passes 2^63.
const IMAGE_MAX: usize = 1 << 12;
const CHANNELS_MAX: usize = 1 << 14;
const WIDTH_MAX: usize = 1 << 16;
const CLASSES_MAX: usize = 1 << 22;
const LAYERS_MAX: usize = 1 << 12;

impl ConvConfig {
    /// Checks the sizes.
    ///
    /// # Errors
    /// A size is zero or too large, there is no convolution, or the image cannot be halved so
    /// often.
    pub fn check(&self) -> Result<(), ModelError> {
        let convolutions = self.convolutions.iter().map(|&width| ("convolutions", width));
        let hidden = self.hidden.iter().map(|&width| ("hidden", width));
        let sizes = [
            ("image", self.image, IMAGE_MAX),
            ("channels", self.channels, CHANNELS_MAX),
            ("the number of convolutions", self.convolutions.len(), LAYERS_MAX),
            ("classes", self.classes, CLASSES_MAX),
        ];
        let widths = convolutions
            .map(|(what, width)| (what, width, CHANNELS_MAX))
            .chain(hidden.map(|(what, width)| (what, width, WIDTH_MAX)));
        for (what, found, max) in sizes.into_iter().chain(widths) {
            if found == 0 || found > max {
                return Err(ModelError::Size { what, found, max });
            }
        }
        let (found, max) = (self.hidden.len(), LAYERS_MAX);
        if found > max {
            return Err(ModelError::Size { what: "the number of hidden layers", found, max });
        }
        let times = self.convolutions.len();
        let multiple = 1_usize.checked_shl(times as u32).unwrap_or(0);
        if multiple == 0 || !self.image.is_multiple_of(multiple) {
            return Err(ModelError::Halvings { image: self.image, times });
        }
        Ok(())
    }

    /// Height and width of the image after so many convolutions.
    pub fn side_after(&self, n_convolutions: usize) -> usize {
        self.image >> n_convolutions
    }

    /// Channels of the image that convolution `idx` takes.
    pub fn channels_into(&self, idx: usize) -> usize {
        idx.checked_sub(1).map_or(self.channels, |before| self.convolutions[before])
    }

    /// Widths into and out of the fully connected layers, the one to the classes last.
    pub fn dense(&self) -> Vec<[usize; 2]> {
        let side = self.side_after(self.convolutions.len());
        let first = side * side * self.channels_into(self.convolutions.len());
        let widths: Vec<usize> =
            [first].iter().chain(&self.hidden).chain([&self.classes]).copied().collect();
        widths.windows(2).map(|pair| [pair[0], pair[1]]).collect()
    }

    /// A short text that differs between configs, as [`crate::GptConfig::fingerprint`].
    pub fn fingerprint(&self) -> String {
        let Self { image, channels, convolutions, hidden, classes } = self;
        hash(&format!("conv {image} {channels} {convolutions:?} {hidden:?} {classes}"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::ConvConfig;

    /// Two convolutions on images of 8 x 8, one hidden layer, five classes.
    pub(crate) fn small() -> ConvConfig {
        ConvConfig { image: 8, channels: 3, convolutions: vec![4, 6], hidden: vec![10], classes: 5 }
    }

    #[test]
    fn illegal_sizes_are_refused_with_the_legal_ones() {
        let check = |config: ConvConfig| match config.check() {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(check(small()), "ok");
        assert_eq!(check(ConvConfig { hidden: vec![], ..small() }), "ok");
        for (config, wanted) in [
            (ConvConfig { classes: 0, ..small() }, "classes is 0; use a value from 1 to 4194304"),
            (
                ConvConfig { convolutions: vec![4, 0], ..small() },
                "convolutions is 0; use a value from 1 to 16384",
            ),
            (
                ConvConfig { convolutions: vec![], ..small() },
                "the number of convolutions is 0; use a value from 1 to 4096",
            ),
            (
                ConvConfig { hidden: vec![1 << 17], ..small() },
                "hidden is 131072; use a value from 1 to 65536",
            ),
            (
                ConvConfig { image: 10, ..small() },
                "an image of 10 x 10 pixels cannot be halved 2 times, once a convolution; use a \
                 multiple of 2^2, or fewer convolutions",
            ),
            (
                ConvConfig { convolutions: vec![1; 70], ..small() },
                "an image of 8 x 8 pixels cannot be halved 70 times, once a convolution; use a \
                 multiple of 2^70, or fewer convolutions",
            ),
        ] {
            assert_eq!(check(config), wanted);
        }
    }

    #[test]
    fn fingerprints_tell_configs_apart() {
        let one = small();
        let two = ConvConfig { convolutions: vec![4], hidden: vec![6, 10], ..small() };
        assert_eq!(one.fingerprint(), one.clone().fingerprint());
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(one.fingerprint().len(), 16);
    }
}
