//! Where tensors live.

use burn::tensor::Device;
use clap::ValueEnum;

/// `--device`: what this build offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceArg {
    /// The processor, all cores.
    #[default]
    Cpu,
    /// The first graphics card that Vulkan names.
    #[cfg(feature = "vulkan")]
    Vulkan,
}

impl DeviceArg {
    /// The engine's device.
    pub(crate) fn open(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        }
    }
}
