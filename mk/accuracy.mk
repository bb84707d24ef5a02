# SPDX-License-Identifier: Apache-2.0
$(call obj,src/lab/accuracy_data.c): docs/measurements.json
