export { readSlice, SourceError, type ISlice, type ISliceAsked, type IWeightSource } from './source';
export { WeightView } from './weights';
