"""``kubectl inspect explain``: explains one pod and prints the explanation."""

from __future__ import annotations

from gcushare.cli.explain.explain import explain_pod
from gcushare.cli.explain.explanation_text import explain_document, explain_text
from gcushare.cli.kubectl.flags import ExplainSettings, Output
from gcushare.cli.kubectl.session import Session
from gcushare.cli.terminal.output_formats import to_json, to_yaml
from gcushare.cluster.reader import Reader


async def explain(session: Session, settings: ExplainSettings) -> int:
    async with session.connect(settings.at) as api, session.screen.progress() as progress:
        namespace, _, name = settings.pod.rpartition("/")
        pod = (namespace or settings.namespace or api.config.namespace, name)
        explained = await explain_pod(Reader(api, progress), session.vendor, settings.figures, pod)
    screen, output = session.screen, settings.show.output
    if output is Output.JSON:
        screen.print_text(to_json(explain_document(explained)))
    elif output is Output.YAML:
        screen.print_text(to_yaml(explain_document(explained)))
    else:
        screen.print_text(explain_text(explained, screen.width))
    session.say_source(explained.source)
    return session.warn(explained.snapshot.problems)
