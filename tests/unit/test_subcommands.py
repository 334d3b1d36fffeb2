"""The command ``gcushare``: which words it knows, and what it says of one whose distribution is not installed."""

import io
import subprocess
import sys
import textwrap

from gcushare.cli.subcommands import SUBCOMMANDS, main
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import MISUSED


def test_a_word_that_is_no_command_is_refused_with_the_known_ones() -> None:
    stderr = io.StringIO()
    assert main(ProcessContext(argv=("doktor",), stderr=stderr)) == MISUSED
    assert "Did you mean 'doctor'?" in stderr.getvalue()
    assert all(each in stderr.getvalue() for each in SUBCOMMANDS)


def test_the_demo_says_what_to_install_if_the_playground_is_not() -> None:
    program = textwrap.dedent(
        """
        import sys
        sys.path = [each for each in sys.path if "playground" not in each]
        sys.meta_path = [each for each in sys.meta_path if "editable" not in repr(each)]
        from gcushare.cli.subcommands import main
        from gcushare.runtime.entry import ProcessContext
        sys.exit(main(ProcessContext(argv=("demo",))))
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == MISUSED
    assert "gcushare-playground, which is not installed" in done.stderr
    assert "Traceback" not in done.stderr
