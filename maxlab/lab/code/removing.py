"""Removes the text of operations that are gone."""

from __future__ import annotations

import ast

from maxlab.ir import Op
from maxlab.lab.code.following import constantly, later, name_of, short
from maxlab.lab.code.parsed import Site
from maxlab.lab.code.referring import Referring
from maxlab.lab.code.refusing import unreachable, wordless
from maxlab.opset import is_constant


class Removing(Referring):
    """Takes operations out of the text; what read them reads what they read."""

    def _removed(self, op: Op) -> None:
        site = self._site_of.get(op.id)
        if site is None and is_constant(op):
            return  # of a line that is gone or rewritten itself, or nobody reads it
        site = self._site(op)
        group = self.reading.sites[site]
        if op is not group[-1]:
            if not is_constant(op) and any(
                one.id in self._now for one in group if not is_constant(one)
            ):
                raise wordless(f"a part of {self.code.text(site)[:40]!r}")
            return
        heir = self._heir(site)
        readers = any(reader.id in self._now for v in op.results for reader in v.uses)
        if not readers:
            self._drop(site, op, heir)
            return
        if heir is None:
            raise unreachable(f"what takes the place of {short(op)}", op.loc)
        self._says.append(f"{short(op)} is gone")
        self._keep_but(site, heir)
        if isinstance(site, ast.AugAssign):
            raise wordless(f"the end of {self.code.text(site)[:40]!r}")
        statement = self.code.statement(site)
        name = name_of(statement, site)
        if (name is not None and isinstance(heir, ast.Name) and heir.id == name) or (
            name is not None and isinstance(heir, ast.Name) and self._is_read_here(name, site)
        ):
            self.gone.add(statement)
        else:
            self.own[site] = later(self._text, heir)

    def _is_read_here(self, name: str, site: Site) -> bool:
        """Whether ``name``, which ``site`` gives, is read by operations of the cell alone, so that
        all that read it can be rewritten; they are."""
        code = self.code
        loads = [n for n in ast.walk(code.tree) if isinstance(n, ast.Name) and n.id == name]
        if sum(isinstance(n.ctx, ast.Store) for n in loads) != 1 or name in self._used:
            return False
        if isinstance(code.scope(site), ast.Module):
            return False  # another cell may read it later
        value = self._before.value(site)
        for node in loads:
            if isinstance(node.ctx, ast.Load):
                owner = code.parents.get(node)
                while isinstance(owner, (ast.List, ast.Tuple, ast.keyword)):
                    owner = code.parents.get(owner)
                is_site = isinstance(owner, (ast.expr, ast.AugAssign)) and owner in (
                    self.reading.sites
                )
                if not is_site or self._before.value(node) != value or code.repeats(node):
                    return False
        heir = self._heir(site)
        assert isinstance(heir, ast.Name)
        for node in loads:
            if isinstance(node.ctx, ast.Load):
                self.put[node] = constantly(heir.id)
                bound = self.reading.visible(node).get(heir.id)
                if bound is None or self._after.bound(bound) != self._after.value(heir):
                    for one in loads:
                        self.put.pop(one, None)
                    return False
        return True

    def _keep_but(self, site: Site, heir: ast.expr | None) -> None:
        """`_keep` what stands in ``site``, but for ``heir``."""
        for argument in self._arguments(site):
            if argument is not heir:
                self._keep(argument)

    def _drop(self, site: Site, op: Op, heir: ast.expr | None) -> None:
        """``op`` is gone, and nothing reads it any more."""
        statement = self.code.statement(site)
        inside = [
            one
            for one in self.code.above(site)
            if isinstance(one, (ast.expr, ast.AugAssign)) and one in self.reading.sites
        ]
        if inside:
            if heir is not None:  # what it stands in is rewritten, or gone
                self._keep_but(site, heir)
                self.own[site] = later(self._text, heir)
            return
        self._keep_but(site, heir)
        name = name_of(statement, site)
        living = heir is not None and bool(self._living(heir))
        if (isinstance(statement, ast.Expr) and statement.value is site and not living) or (
            name is not None and not living and self._is_dead(name, site, heir)
        ):
            self.gone.add(statement)
        elif heir is not None and isinstance(site, ast.AugAssign):
            target = self.code.text(site.target)
            self.own[site] = lambda: f"{target} = {self._text(heir)}"
        elif heir is not None:
            self.own[site] = later(self._text, heir)
        else:
            raise unreachable(f"{name or short(op)}, which nothing of the graph reads any more,")
        self._says.append(f"{short(op)} is gone")

    def _is_dead(self, name: str, site: Site, heir: ast.expr | None) -> bool:
        """Whether nothing that stays reads ``name``. Where there is an heir, what read it may still
        be written as that name."""
        if heir is None:
            return not self._is_needed(name, site)
        loads = (
            node
            for node in ast.walk(self.code.tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )
        return name not in self._used and not any(
            self._before.value(node) in (None, self._before.value(site)) for node in loads
        )

    def _is_needed(self, name: str, site: Site) -> bool:
        """Whether something that stays reads ``name``, which ``site`` gives."""
        if name in self._used:
            return True
        for node in ast.walk(self.code.tree):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                around = [
                    one
                    for one in self.code.above(node)
                    if isinstance(one, (ast.expr, ast.AugAssign)) and one in self.reading.sites
                ]
                if self._before.value(node) != self._before.value(site):
                    if self._before.value(node) is None:
                        return True
                    continue
                if not around:
                    return True
                last = self.reading.sites[around[0]][-1]
                if last.id in self._now and any(
                    self._before.value(site) == v.id for v in self._now[last.id].operands
                ):
                    return True
        return False


__all__ = ["Removing"]
