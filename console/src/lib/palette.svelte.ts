export const palette = $state({ open: false });
