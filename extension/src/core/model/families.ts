/** Families of operations; each has one calm colour in every theme. */

export type Family =
  | 'contract'
  | 'elementwise'
  | 'activation'
  | 'reduce'
  | 'norm'
  | 'view'
  | 'index'
  | 'source'
  | 'other';

export const FAMILY_NAMES: Record<Family, string> = {
  contract: 'matrix product',
  elementwise: 'elementwise',
  activation: 'activation',
  reduce: 'reduction',
  norm: 'normalisation',
  view: 'view and shape',
  index: 'indexing',
  source: 'constant and range',
  other: 'other'
};

const MEMBERS: Record<Exclude<Family, 'other'>, string> = {
  contract:
    'matmul linear dot outer einsum conv convolution conv2d conv3d conv_transpose conv2d_transpose ' +
    'batch_matmul bmm attention flash_attention gemm qmatmul',
  elementwise:
    'add sub mul div floordiv mod pow neg abs exp exp2 log log1p log2 sqrt rsqrt rsqrt sin cos tan ' +
    'acos asin atan atan2 erf floor ceil round trunc sign max min maximum minimum equal not_equal ' +
    'greater greater_equal less less_equal logical_and logical_or logical_not logical_xor and or ' +
    'not xor where select cast is_nan is_inf clip clamp square reciprocal fma scale ' +
    'band_part dequantize',
  activation: 'gelu silu relu sigmoid tanh softmax logsoftmax log_softmax softplus elu swish mish',
  reduce:
    'sum mean prod reduce_max reduce_min reduce_sum reduce_mean argmax argmin any all cumsum ' +
    'top_k topk variance norm max_pool avg_pool max_pool2d avg_pool2d pool fold',
  norm: 'layer_norm rms_norm group_norm batch_norm instance_norm normalize l2_normalize',
  view:
    'reshape transpose permute broadcast_to broadcast squeeze unsqueeze flatten slice slice_tensor ' +
    'split chunk rebind view expand concat stack pad tile repeat repeat_interleave identity ' +
    'shape shape_of flip roll contiguous copy',
  index:
    'gather gather_nd scatter scatter_nd scatter_add nonzero masked_scatter embedding take index ' +
    'sort argsort resize',
  source: 'constant range full zeros ones random uniform normal weight literal hann_window arange'
};

const FAMILY_OF = new Map<string, Family>();
for (const [family, names] of Object.entries(MEMBERS)) {
  for (const name of names.split(' ')) {
    FAMILY_OF.set(name, family as Family);
  }
}

/** The family of an operation name; dialect prefixes (`mo.add`, `rmo.add`) do not matter. */
export function familyOf(op: string): Family {
  const known = FAMILY_OF.get(op);
  if (known !== undefined) {
    return known;
  }
  const bare = op.slice(op.lastIndexOf('.') + 1).toLowerCase();
  return FAMILY_OF.get(bare) ?? (bare.startsWith('reduce_') ? 'reduce' : 'other');
}
