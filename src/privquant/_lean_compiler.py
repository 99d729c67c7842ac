"""numba's compiler for kernels, without what kernels have no use for: the same machine code in less time.

    passes       kernels have no closures, context managers, comprehensions or sums of whole arrays; the passes that
                 look for them are left out.
    overloads    what `+` or `min` means for given types is looked up once, not at every place where it is written.
    parts        a kernel that only kernels call is optimised and made machine code within theirs, not by itself.
                 numba does both for every function, and again for all of it in every caller.
    garbage      is left lying until a kernel with all that is behind it is compiled: nearly all of it is in use.

What is overruled here is not promised by numba; where it is not as it was, kernels compile as they would without.
"""

from __future__ import annotations

import gc
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

_UNTYPED = ("TranslateByteCode", "FixupArgs", "IRProcessing", "GenericRewrites", "ReconstructSSA")
_TYPED = (
    "NopythonTypeInference",
    "PreLowerStripPhis",
    "IRLegalization",
    "AnnotateTypes",
    "NativeLowering",
    "NoPythonBackend",
)
_LIBRARY = ("finalize", "add_linking_library", "_ensure_finalized", "_get_module_for_linking")


@cache
def lean(part: bool) -> dict[str, Any]:
    """Options of numba's for a kernel; part: only kernels call it."""
    try:
        codegen = import_module("numba.core.codegen")
        compiler = import_module("numba.core.compiler")
        machinery = import_module("numba.core.compiler_machinery")
        untyped, typed = import_module("numba.core.untyped_passes"), import_module("numba.core.typed_passes")
        passes = [*(getattr(untyped, name) for name in _UNTYPED), *(getattr(typed, name) for name in _TYPED)]
        assert all(callable(getattr(codegen.JITCodeLibrary, name)) for name in _LIBRARY)
        external = import_module("llvmlite.binding").Linkage.external
        assert callable(compiler.CompilerBase.compile_extra)
    except (ImportError, AttributeError, AssertionError):
        return {}

    class Part(codegen.JITCodeLibrary):  # type: ignore[name-defined,misc]
        codegen = SimpleNamespace(set_env=lambda name, environment: None)  # its own is never loaded

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        def finalize(self) -> None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == external:
                    function.linkage = "linkonce_odr"
            self._shared_module = self._final_module
            self._finalized = True

    class Whole(codegen.JITCodeLibrary):  # type: ignore[name-defined,misc]
        def finalize(self) -> None:
            # what nothing calls yet is not linked: callers before those they call
            after: list[Any] = []
            _visit(self, set(), after)
            self._linking_libraries = after[-2::-1]
            super().finalize()

    class Compiler(compiler.CompilerBase):  # type: ignore[name-defined,misc]
        def compile_extra(self, function: Any) -> Any:
            collects = gc.isenabled()
            gc.disable()
            try:
                return super().compile_extra(function)
            finally:
                if collects:
                    gc.enable()

        def define_pipelines(self) -> Any:
            state = self.state
            flags = state.flags
            state.typingctx = _remembering(state.typingctx, flags.nrt, str(flags.fastmath))
            state.library = (Part if part else Whole)(state.targetctx.codegen(), state.func_id.func_qualname)
            if not part:
                state.library.enable_object_caching()
            pipeline = machinery.PassManager("kernel")
            for each in passes:
                pipeline.add_pass(each, each.__name__)
            pipeline.finalize()
            return [pipeline]

    return {"pipeline_class": Compiler}


def _visit(library: Any, seen: set[Any], after: list[Any]) -> None:
    """Append the libraries behind one that are not seen yet, and it, each after all that it calls."""
    seen.add(library)
    for other in library._linking_libraries:
        if other not in seen:
            _visit(other, seen, after)
    after.append(library)


@cache
def _remembering(context: Any, counted: bool, fast: str) -> Any:
    """The typing context, which remembers what each function came to for the types of its arguments.

    numba tries every overload of a function again at every call. Kernels remember for themselves: where they stand
    in one another's callers decides what they are.

    counted, fast: whether references are counted, and which mathematics is allowed; other flags do not matter.
    """
    dispatcher = import_module("numba.core.types").Dispatcher
    known: dict[Any, Any] = {}

    class Remembering(type(context)):  # type: ignore[misc]
        def resolve_function_type(self, function: Any, args: Any, named: Any) -> Any:
            if isinstance(function, dispatcher | str):  # by a name go the steps whose arguments are plain values
                return context.resolve_function_type(function, args, named)
            key = function, tuple(args), tuple(dict(named).items())
            found = known.get(key)
            if found is None:
                known[key] = found = context.resolve_function_type(function, args, named)
            return found

    twin = object.__new__(Remembering)
    twin.__dict__ = context.__dict__
    return twin


def once_for_all_literals(dispatcher: Any) -> None:
    """Kernels that call it with a number written out share one version: numba would compile one for each number."""
    unliteral: Any = import_module("numba.core.types").unliteral
    for_types = dispatcher.get_call_template

    def for_values(args: Any, named: Any) -> Any:
        plain = [unliteral(kind) for kind in args]
        return for_types(plain, {name: unliteral(kind) for name, kind in named.items()})

    dispatcher.get_call_template = for_values
