"""The command ``gcushare``: which words it knows, and what it says of one whose distribution is not installed."""

import subprocess
import sys
import textwrap

from gcushare.runtime.exit_codes import MISUSED


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
