# SPDX-License-Identifier: Apache-2.0
$(call obj,src/report/timeline_assets.c): src/report/timeline.css src/report/timeline.js
