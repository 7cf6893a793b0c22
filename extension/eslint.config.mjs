/**
 * What eslint checks: typescript-eslint's strict rules, with types in `src`, and the conventions of
 * JupyterLab's own configuration. A rule that is switched off, or that knows an exception, has its reason
 * beside it.
 */

import js from '@eslint/js';
import jupyter from '@jupyter/eslint-plugin';
import tseslint from 'typescript-eslint';

/** Reads of numbers at places known to be inside are unchecked; these count millions of them. */
const READS_NUMBERS = [
  'src/core/layout/*.ts',
  'src/core/render/{grid,painter,picture}.ts',
  // The layout and the painter of the timeline, which draws a million slices.
  'src/core/panels/timeline/{data,lanes,merge,model,navigator,paint,rows,styles,words}.ts'
];

const NUM = {
  group: ['**/num'],
  message: 'unchecked reads are for layouts and painters of many numbers: use `at` of narrow.ts'
};

const JUPYTER = {
  group: ['@jupyterlab/*', '@jupyter-widgets/*', '@jupyter/*', '@lumino/*', 'react', 'react-dom', '**/lab/**', '**/widget/**'],
  message: 'the core runs in pages without Jupyter'
};

/** JupyterLab's conventions. */
const CONVENTIONS = {
  '@typescript-eslint/naming-convention': [
    'error',
    { selector: 'interface', format: ['PascalCase'], custom: { regex: '^I[A-Z]', match: true } },
    { selector: 'class', format: ['PascalCase'] },
    { selector: 'typeAlias', format: ['PascalCase'] },
    {
      selector: ['classProperty', 'classMethod', 'classicAccessor', 'parameterProperty'],
      modifiers: ['private'],
      format: ['camelCase'],
      leadingUnderscore: 'require'
    },
    {
      selector: ['classProperty', 'classMethod', 'classicAccessor', 'parameterProperty'],
      modifiers: ['protected'],
      format: ['camelCase'],
      // Lumino's widgets call `onAfterAttach` and its like.
      leadingUnderscore: 'allow'
    }
  ],
  '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
  '@typescript-eslint/no-unused-vars': ['error', { args: 'none', ignoreRestSiblings: true }],
  curly: ['error', 'all'],
  eqeqeq: 'error',
  'id-match': ['error', '^[a-zA-Z_]+[a-zA-Z0-9_]*$'],
  'prefer-arrow-callback': 'error',
  quotes: ['error', 'single', { avoidEscape: true, allowTemplateLiterals: false }],
  'sort-imports': ['error', { ignoreCase: true, ignoreDeclarationSort: true, ignoreMemberSort: true }]
};

export default tseslint.config(
  { ignores: ['lib', 'node_modules'] },
  {
    files: ['src/**/*.{ts,tsx}'],
    extends: [js.configs.recommended, tseslint.configs.strictTypeChecked],
    plugins: { jupyter },
    languageOptions: {
      parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname }
    },
    rules: {
      ...CONVENTIONS,
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true }
      ],
      'jupyter/command-described-by': 'error',
      'jupyter/plugin-activation-args': 'error',
      'jupyter/plugin-description': 'error',

      // Nothing is taken on trust but `as const`.
      '@typescript-eslint/consistent-type-assertions': ['error', { assertionStyle: 'never' }],

      // A callback in one line may be a call: `() => this.close()` says what it does, and `void` nothing more.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // Numbers in texts are what most of the texts here are for.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }]
    }
  },
  {
    files: ['src/**/*.{ts,tsx}'],
    ignores: READS_NUMBERS,
    rules: { 'no-restricted-imports': ['error', { patterns: [NUM] }] }
  },
  {
    files: ['src/core/**/*.ts', 'src/export/**/*.ts', 'src/proto/**/*.ts'],
    ignores: READS_NUMBERS,
    rules: { 'no-restricted-imports': ['error', { patterns: [NUM, JUPYTER] }] }
  },
  {
    files: READS_NUMBERS,
    rules: { 'no-restricted-imports': ['error', { patterns: [JUPYTER] }] }
  },
  {
    files: ['src/proto/*.ts'],
    // Generated: an interface gives a name to the values that a reader lets pass, whose fields are said once.
    rules: { '@typescript-eslint/no-empty-object-type': ['error', { allowInterfaces: 'with-single-extends' }] }
  },
  {
    files: ['src/core/num.ts'],
    // The helper that takes a promise unchecked, so that nobody else has to.
    rules: { '@typescript-eslint/no-non-null-assertion': 'off' }
  },
  {
    files: ['src/lab/**/*.{ts,tsx}'],
    // Lumino's signals are connected to a method and the `this` that it is called with.
    rules: { '@typescript-eslint/unbound-method': 'off' }
  },
  {
    // Without types, which `tsc` checks: the stand-ins of tests are cast, and a quarter of the time would go here.
    files: ['test/**/*.ts'],
    extends: [js.configs.recommended, tseslint.configs.strict],
    rules: {
      ...CONVENTIONS,
      // A test that is wrong about what is there fails at the next line, which is all that it needs.
      '@typescript-eslint/no-non-null-assertion': 'off'
    }
  }
);
