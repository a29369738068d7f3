"""Input of the notification endpoints: types only, what they mean is checked by the domain."""

from __future__ import annotations

from marshmallow import fields, validate

from tocsin.http.schemas import INT32, ROW_ID, Loose, Whole, identifier, ids, integer, text, truth

EVENT_ID = validate.Range(min=0, max=(1 << 63) - 1)


class FilterSchema(Loose):
    """One condition on a tag or field."""

    key = text()
    func = text()
    op = text()
    value = fields.Raw(load_default=None)


class TimeRangeSchema(Loose):
    """A time of day on some weekdays."""

    start = text()
    end = text()
    week = fields.List(Whole(), load_default=list)


class NotifyConfigSchema(Loose):
    """One route of a rule; what is only shown is ignored."""

    channel_id = identifier()
    template_id = identifier()
    params = fields.Dict(keys=fields.String(), load_default=dict)
    type = text()
    severities = fields.List(Whole(), load_default=list)
    time_ranges = fields.List(fields.Nested(TimeRangeSchema), load_default=list)
    label_keys = fields.List(fields.Nested(FilterSchema), load_default=list)
    attributes = fields.List(fields.Nested(FilterSchema), load_default=list)


class PipelineConfigSchema(Loose):
    """One pipeline of a rule."""

    pipeline_id = identifier()
    enable = truth()


class NotifyRuleSchema(Loose):
    """A notification rule."""

    name = text(255)
    description = text(65_535)
    enable = truth()
    user_group_ids = ids(ROW_ID)
    pipeline_configs = fields.List(fields.Nested(PipelineConfigSchema), load_default=None)
    notify_configs = fields.List(fields.Nested(NotifyConfigSchema), load_default=list)
    extra_config = fields.Raw(load_default=None)


class UserInfoSchema(Loose):
    """Recipients of a channel are users; which of their contacts counts."""

    contact_key = text(191)


class ParamSchema(Loose):
    """One parameter that rules fill in."""

    key = text()
    cname = text()
    type = text()


class CustomSchema(Loose):
    """The parameters that rules fill in."""

    params = fields.List(fields.Nested(ParamSchema), load_default=None)


class ParamConfigSchema(Loose):
    """What rules have to give for a channel."""

    user_info = fields.Nested(UserInfoSchema)
    custom = fields.Nested(CustomSchema, load_default=lambda: {"params": None})


class ChannelSchema(Loose):
    """A channel; ``request_config`` is checked by the plugin that serves it."""

    id = identifier()
    name = text(191)
    ident = text(128)
    description = text(65_535)
    enable = truth()
    param_config = fields.Nested(ParamConfigSchema, load_default=None)
    request_type = text(64)
    request_config = fields.Dict(keys=fields.String(), load_default=None)
    weight = integer(bounds=INT32)


class TemplateSchema(Loose):
    """A message template."""

    id = identifier()
    name = text()
    ident = text(191)
    content = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)
    user_group_ids = ids(ROW_ID)
    notify_channel_ident = text(128)
    private = integer(bounds=INT32)
    weight = integer(bounds=INT32)


class RuleTestSchema(Loose):
    """A route to be tried with events."""

    event_ids = ids(EVENT_ID)
    use_mock_event = truth()
    notify_config = fields.Nested(NotifyConfigSchema, load_default=dict)


class TemplateTextSchema(Loose):
    """A template to be tried."""

    content = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)


class PreviewSchema(Loose):
    """A message template to be shown with events."""

    event_ids = ids(EVENT_ID)
    use_mock_event = truth()
    mock_severity = integer(2)
    mock_is_recovered = truth()
    tpl = fields.Nested(TemplateTextSchema, load_default=dict)


class ChannelTestSchema(Loose):
    """A channel to be tried before it is saved."""

    config = fields.Nested(ChannelSchema, required=True)
    notify_config = fields.Nested(NotifyConfigSchema, load_default=dict)
    tpl_content = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)
    event_ids = ids(EVENT_ID)
    use_mock_event = truth()
    mock_severity = integer(2)
    mock_is_recovered = truth()


class RecordSchema(Loose):
    """A notification record from another engine."""

    notify_rule_id = identifier()
    event_id = identifier(EVENT_ID)
    sub_id = identifier(EVENT_ID)
    channel = text(255)
    status = Whole(required=True, validate=validate.OneOf((1, 2, 3)))
    target = text(65_535)
    details = text(65_535)
    created_at = identifier(EVENT_ID)
