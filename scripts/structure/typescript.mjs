/**
 * Counts in extension/src what a type checker has to take on trust, and says where. The definitions
 * stand in scripts/structure/typescript.py; the words here are those of the TypeScript compiler.
 *
 *   node typescript.mjs TSCONFIG ROOT     prints JSON: name of a counter -> list of [file, line, text]
 */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';

const [config, root] = process.argv.slice(2).map(path => resolve(path));
// The compiler of the extension, wherever this file lies.
const ts = createRequire(join(dirname(config), 'package.json'))('typescript');

const { options, fileNames } = ts.parseJsonConfigFileContent(
  ts.readConfigFile(config, ts.sys.readFile).config,
  ts.sys,
  dirname(config)
);
const program = ts.createProgram(fileNames, { ...options, noEmit: true, skipLibCheck: true });
const checker = program.getTypeChecker();
const K = ts.SyntaxKind;

const found = { assertions: [], fallbacks: [], non_null: [], deep_classes: [], validators: [] };

const saysNothing = type => (type.flags & ts.TypeFlags.Unknown) !== 0;

/** Whether `type` says nothing about a value, or nothing about the values inside it. */
function isRaw(type) {
  if (saysNothing(type)) {
    return true;
  }
  if (type.isUnion()) {
    return type.types.some(isRaw);
  }
  if (!(type.flags & ts.TypeFlags.Object)) {
    return false;
  }
  const inside =
    checker.getIndexTypeOfType(type, ts.IndexKind.String) ??
    (checker.isArrayType(type) || checker.isTupleType(type)
      ? checker.getTypeArguments(type)[0]
      : undefined);
  return inside !== undefined && saysNothing(inside);
}

/** Whether the expression `node` is what a `catch` or a rejected promise hands over. */
function isThrown(node) {
  if (!ts.isIdentifier(node)) {
    return false;
  }
  const made = checker.getSymbolAtLocation(node)?.valueDeclaration;
  return (
    made !== undefined &&
    (ts.isCatchClause(made.parent) ||
      (ts.isParameter(made) && ['error', 'reason'].includes(made.name.getText())))
  );
}

/** Whether `node` is a value of raw type: not the name of a function, of a property or of a type. */
function isRawValue(node) {
  if (!ts.isExpression(node) || isThrown(node)) {
    return false;
  }
  if (ts.isParenthesizedExpression(node)) {
    return isRawValue(node.expression);
  }
  if (isAssertion(node) && node.type.kind === K.UnknownKeyword) {
    return false; // half of a double assertion, which is counted as one
  }
  const { parent } = node;
  return (
    !(ts.isIdentifier(node) && ts.isPropertyAccessExpression(parent) && parent.name === node) &&
    !(ts.isCallExpression(parent) && parent.expression === node) &&
    (isRaw(checker.getTypeAtLocation(node)) ||
      (ts.isCallExpression(node) && node.expression.getText() === 'JSON.parse'))
  );
}

/** Whether some value inside of the expression `node` is of raw type; functions in it do not count. */
function holdsRaw(node) {
  return (
    isRawValue(node) ||
    (!ts.isFunctionLike(node) && ts.forEachChild(node, child => holdsRaw(child) || undefined) === true)
  );
}

function isLiteral(node) {
  return (
    ts.isLiteralExpression(node) ||
    node.kind === K.TrueKeyword ||
    node.kind === K.FalseKeyword ||
    (ts.isPrefixUnaryExpression(node) && ts.isLiteralExpression(node.operand)) ||
    ((ts.isArrayLiteralExpression(node) || ts.isObjectLiteralExpression(node)) &&
      node.getChildAt(1).getChildCount() === 0)
  );
}

const isConst = node => ts.isTypeReferenceNode(node.type) && node.type.getText() === 'const';
const isAssertion = node => ts.isAsExpression(node) || ts.isTypeAssertionExpression(node);

/** Whether `node` looks for itself what a raw value is, or takes a part of one by its name. */
function narrows(node) {
  if (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node)) {
    return isRawValue(node.expression) && !checker.isArrayType(checker.getTypeAtLocation(node.expression));
  }
  if (ts.isTypeOfExpression(node)) {
    return isRawValue(node.expression);
  }
  if (isAssertion(node)) {
    return !isConst(node) && isRawValue(node.expression);
  }
  if (ts.isBinaryExpression(node)) {
    const kind = node.operatorToken.kind;
    return (
      (kind === K.InstanceOfKeyword && isRawValue(node.left)) ||
      (kind === K.InKeyword && isRawValue(node.right))
    );
  }
  if (ts.isCallExpression(node)) {
    const called = node.expression.getText();
    return (
      ['Array.isArray', 'Number', 'String', 'Number.isFinite', 'Number.isInteger'].includes(called) &&
      node.arguments.some(isRawValue)
    );
  }
  return false;
}

/** The innermost function with a name around `node`; the file when there is none. */
function owner(node) {
  for (let at = node.parent; at; at = at.parent) {
    if (
      ts.isFunctionDeclaration(at) ||
      ts.isMethodDeclaration(at) ||
      ts.isConstructorDeclaration(at) ||
      ts.isAccessor(at) ||
      ((ts.isArrowFunction(at) || ts.isFunctionExpression(at)) && ts.isVariableDeclaration(at.parent))
    ) {
      return at;
    }
  }
  return node.getSourceFile();
}

function nameOf(node) {
  const named = node.name ?? node.parent?.name;
  return named ? named.getText() : ts.isConstructorDeclaration(node) ? 'constructor' : '(file)';
}

/** The classes of this source that `node` extends, itself first. */
function chain(node) {
  const names = [node.name?.text ?? '(class)'];
  for (let at = node; ; ) {
    const base = at.heritageClauses?.find(c => c.token === K.ExtendsKeyword)?.types[0];
    const symbol = base && checker.getTypeAtLocation(base.expression).symbol;
    at = symbol?.declarations?.find(d => ts.isClassLike(d));
    if (!at || relative(root, at.getSourceFile().fileName).startsWith('..')) {
      return names;
    }
    names.push(at.name?.text ?? '(class)');
  }
}

for (const file of program.getSourceFiles()) {
  const path = relative(root, file.fileName);
  if (path.startsWith('..') || file.isDeclarationFile) {
    continue;
  }
  const generated = /generated by/i.test(readFileSync(file.fileName, 'utf8').slice(0, 300));
  const readers = new Map();
  const add = (name, node, text) => {
    const line = file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;
    found[name].push([path, line, text ?? node.getText(file).replace(/\s+/g, ' ').slice(0, 90)]);
  };
  const visit = node => {
    if (isAssertion(node) && !isConst(node)) {
      add('assertions', node);
    }
    if (ts.isNonNullExpression(node)) {
      add('non_null', node, `${nameOf(owner(node))}: ${node.getText(file).slice(0, 60)}`);
    }
    if (ts.isClassLike(node)) {
      const names = chain(node);
      if (names.length > 2) {
        add('deep_classes', node, names.join(' < '));
      }
    }
    if (!generated) {
      if (
        (ts.isBinaryExpression(node) &&
          [K.QuestionQuestionToken, K.BarBarToken].includes(node.operatorToken.kind) &&
          isLiteral(node.right) &&
          holdsRaw(node.left)) ||
        (ts.isCallExpression(node) &&
          node.expression.getText(file) === 'Number' &&
          node.arguments.some(holdsRaw))
      ) {
        add('fallbacks', node);
      }
      if (narrows(node)) {
        readers.set(owner(node), true);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  for (const reader of readers.keys()) {
    add('validators', reader, nameOf(reader));
  }
}
process.stdout.write(JSON.stringify(found));
