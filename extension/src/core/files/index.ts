export { readSlice, SourceError, type ISlice, type ISliceAsked, type IWeightSource } from './source';
export { ModelView } from './model';
export { problemText } from './problem';
export { WeightView } from './weights';
