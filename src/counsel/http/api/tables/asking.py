"""Routes for jobs, their events, conversations, files and images."""

from __future__ import annotations

from counsel.engine.history import documents as history
from counsel.front.json_messages import LARGEST_MESSAGE
from counsel.http.api import conversations, event_stream, files, images, jobs, submit
from counsel.http.api.documents import answers as answer
from counsel.http.api.documents import events as event
from counsel.http.api.documents import jobs as job
from counsel.http.api.documents import machine
from counsel.http.api.endpoint import (
    PROJECT,
    ApiRoute,
    Binary,
    Events,
    OneOf,
    Parameter,
    choice,
    names,
    number,
    switch,
    text,
)

STATES = ("processing", "completed", "failed", "cancelled", "completed_with_errors")
TOOLS = ("chat", "consensus", "askModel", "completion", "review")
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CURSOR = text("cursor", "The value of `next` on the previous page.")
LAST_EVENT = Parameter("Last-Event-ID", "The id of the last event received.", {"type": "string"})
AFTER = text("after", "The same as the header `Last-Event-ID`, for clients that cannot set headers.")

ROWS: tuple[ApiRoute, ...] = (
    # jobs
    ApiRoute(
        "POST",
        "/api/jobs",
        submit.submit,
        "Ask one model (`model`); or several (`models`), which then refine their answers; or have several review a `diff`.",
        body=OneOf(submit.SCHEMAS),
        headers=(submit.IDEMPOTENCY,),
        answers={200: OneOf((answer.Answer, answer.Consensus, answer.Review, Events())), 202: job.Job},
        largest=LARGEST_MESSAGE,
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/jobs",
        jobs.page,
        "Jobs, newest first.",
        query=(
            number("limit", 10, 1_000, "Maximum number of jobs on a page."),
            CURSOR,
            choice("status", STATES, None, "Only jobs of this status."),
            choice("tool", TOOLS, None, "Only jobs of this tool."),
            text("model", "Only jobs that asked this model, by its name in the request."),
            text("conversation", "Only jobs of this conversation."),
            text("q", "Only jobs with all these words in their title, summary, models or ids."),
        ),
        answers={200: job.Jobs},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/jobs/{id}",
        jobs.show,
        "A job: its progress, text so far, and result.",
        query=(
            switch("history", "Include the conversation."),
            switch("question", "Include the question."),
        ),
        answers={200: job.Job},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/jobs/{id}/events",
        jobs.events,
        "The job's events, from its start or after the last one received, until it ends.",
        query=(AFTER,),
        headers=(LAST_EVENT,),
        answers={200: Events()},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/jobs/{id}/timeline",
        jobs.timeline,
        "What happened to a job, and when: waits, rounds, first words, retries, tool calls.",
        answers={200: job.Timeline},
        team="person",
    ),
    ApiRoute(
        "POST",
        "/api/jobs/{id}/cancel",
        jobs.cancel,
        "Stop a job and its calls, or one model of a consensus.",
        body=job.CancelJob,
        answers={200: job.Cancelled},
        team="person",
    ),
    ApiRoute(
        "DELETE",
        "/api/jobs/{id}",
        jobs.delete,
        "Delete a job that has ended. Its turn stays in its conversation.",
        answers={200: job.Deleted},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/events",
        event_stream.show,
        "Events of several jobs, and changes of the list of jobs, as one stream.",
        query=(
            names("job", "`ID~CURSOR`: a job, and the `cursor` of the last event received from it."),
            switch("jobs", "Include the newest jobs, then jobs that are new or have changed."),
        ),
        answers={200: Events(event.STREAM)},
        team="person",
    ),
    # conversations
    ApiRoute(
        "GET",
        "/api/conversations",
        conversations.page,
        "Conversations, most recently used first.",
        query=(
            number("limit", 20, 1_000, "Maximum number of conversations on a page."),
            CURSOR,
            text("q", "Only conversations that contain all these words."),
            switch("shared", "On a team's server: conversations that anyone shared, instead of your own."),
        ),
        answers={200: history.Conversations},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/conversations/{id}",
        conversations.show,
        "A conversation with its messages.",
        answers={200: job.Conversation},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/conversations/{id}/export",
        conversations.export,
        "The folder that `counsel conversations export` writes, as a ZIP file.",
        answers={200: Binary(("application/zip",))},
        team="person",
    ),
    ApiRoute(
        "POST",
        "/api/conversations/{id}/share",
        conversations.share,
        "Let everyone on the team read a conversation, including later messages, until it is unshared.",
        answers={200: job.Conversation},
        team="person",
    ),
    ApiRoute(
        "POST",
        "/api/conversations/{id}/unshare",
        conversations.unshare,
        "Stop sharing a conversation.",
        answers={200: job.Conversation},
        team="person",
    ),
    ApiRoute(
        "DELETE",
        "/api/conversations/{id}",
        conversations.delete,
        "Delete a conversation and its finished jobs. This cannot be undone.",
        answers={200: job.Deleted},
        team="person",
    ),
    # files and images
    ApiRoute(
        "POST",
        "/api/files",
        files.add,
        "Store a file for a day; a question can name its path in `files`.",
        query=(text("name", "The file's name, with its extension."),),
        body=Binary(("application/octet-stream",)),
        answers={200: machine.StoredFile},
        team="person",
    ),
    ApiRoute(
        "POST",
        "/api/images",
        images.add,
        "Check an image and store it in the project.",
        query=(PROJECT,),
        body=Binary(IMAGES),
        answers={200: machine.StoredImage},
    ),
    ApiRoute(
        "GET",
        "/api/images/{id}",
        conversations.image,
        "An image of a conversation (`image_ids` of its messages).",
        answers={200: Binary(IMAGES)},
        team="person",
    ),
)
